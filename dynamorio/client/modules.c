/* Modules: which code is recorded, and program counters as module and offset. */
#include "client.h"
#include <elf.h>

typedef struct {
    app_pc start, end;
    uint64_t bias;
    uint32_t number;
    bool is_main;
    bool is_loaded;
    struct refrain_module *record;
} module_t;

#define MOST_MODULES 65535
static void *lock;
static module_t *modules;
static uint32_t module_count, module_room;
static app_pc main_start, main_end;

/* The linker's stubs (PLT), through which the program calls libraries. They are not recorded: what
 * they load at the first call depends on which thread comes first. */
#define MOST_STUBS 4
static struct {
    app_pc start, end;
} stubs[MOST_STUBS];
static uint32_t stub_count;

bool
is_recorded(app_pc pc)
{
    if (options.libraries)
        return true;
    if (pc < main_start || pc >= main_end)
        return false;
    for (uint32_t i = 0; i < stub_count; i++) {
        if (pc >= stubs[i].start && pc < stubs[i].end)
            return false;
    }
    return true;
}

/* The caller holds the lock. */
static module_t *
module_at(app_pc pc)
{
    for (uint32_t i = module_count; i-- > 0;) {
        if (modules[i].is_loaded && pc >= modules[i].start && pc < modules[i].end)
            return &modules[i];
    }
    return NULL;
}

uint64_t
place_of(app_pc pc)
{
    dr_rwlock_read_lock(lock);
    module_t *module = module_at(pc);
    uint64_t place = module == NULL
        ? REFRAIN_PC(0, (uint64_t)pc & 0xffffffffffffull)
        : REFRAIN_PC(module->number, (uint64_t)pc - module->bias);
    dr_rwlock_read_unlock(lock);
    return place;
}

/* ---- contents of the file ---- */

/* Copies the build id from the notes of the loaded module; returns its length. */
static uint32_t
build_id(const module_data_t *module, uint64_t bias, byte *id, uint32_t room)
{
    Elf64_Ehdr head;
    size_t read;
    if (!dr_safe_read(module->start, sizeof(head), &head, &read))
        return 0;
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        if (!dr_safe_read(module->start + head.e_phoff + i * sizeof(part), sizeof(part), &part,
                          &read))
            return 0;
        if (part.p_type != PT_NOTE)
            continue;
        uint64_t at = bias + part.p_vaddr, end = at + part.p_memsz;
        while (at + sizeof(Elf64_Nhdr) <= end) {
            Elf64_Nhdr note;
            if (!dr_safe_read((void *)at, sizeof(note), &note, &read))
                break;
            uint64_t text = at + sizeof(note) + ((note.n_namesz + 3) & ~3u);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4) {
                uint32_t length = note.n_descsz < room ? note.n_descsz : room;
                return dr_safe_read((void *)text, length, id, &read) ? length : 0;
            }
            at = text + ((note.n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

typedef struct {
    byte *bytes;
    size_t size;
} mapped_t;

static bool
map_file(const char *path, mapped_t *mapped)
{
    file_t file = dr_open_file(path, DR_FILE_READ);
    uint64 size;
    if (file == INVALID_FILE)
        return false;
    mapped->bytes = NULL;
    if (dr_file_size(file, &size) && size > sizeof(Elf64_Ehdr)) {
        mapped->size = size;
        mapped->bytes =
            dr_map_file(file, &mapped->size, 0, NULL, DR_MEMPROT_READ, DR_MAP_PRIVATE);
    }
    dr_close_file(file);
    return mapped->bytes != NULL;
}

/* Whether a symbol has the name that the user gave, as C, Fortran or C++ write it. */
static bool
is_named(const char *symbol, const char *name)
{
    size_t length = strlen(name), all = strlen(symbol);
    if (strcmp(symbol, name) == 0)
        return true;
    if (all == length + 1 && memcmp(symbol, name, length) == 0 && symbol[length] == '_')
        return true;
    if (all > length + 5 && memcmp(symbol + all - length - 5, "_MOD_", 5) == 0 &&
        strcmp(symbol + all - length, name) == 0)
        return true;
    char mangled[300];
    dr_snprintf(mangled, sizeof(mangled), "_Z%d%s", (int)length, name);
    return all > strlen(mangled) && memcmp(symbol, mangled, strlen(mangled)) == 0;
}

static uint64_t
value_in_table(const mapped_t *file, const Elf64_Shdr *table, const Elf64_Shdr *strings,
               const char *name)
{
    if (table->sh_offset + table->sh_size > file->size ||
        strings->sh_offset + strings->sh_size > file->size || strings->sh_size == 0)
        return 0;
    const char *names = (const char *)file->bytes + strings->sh_offset;
    if (names[strings->sh_size - 1] != '\0')
        return 0;
    const Elf64_Sym *symbol = (const void *)(file->bytes + table->sh_offset);
    for (uint64_t i = 0; i < table->sh_size / sizeof(*symbol); i++, symbol++) {
        int type = ELF64_ST_TYPE(symbol->st_info);
        if (type == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            symbol->st_name < strings->sh_size && is_named(names + symbol->st_name, name))
            return symbol->st_value;
    }
    return 0;
}

static uint64_t
value_in_file(const mapped_t *file, const char *name)
{
    const Elf64_Ehdr *head = (const void *)file->bytes;
    uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * sizeof(Elf64_Shdr);
    if (head->e_shoff == 0 || end > file->size)
        return 0;
    const Elf64_Shdr *sections = (const void *)(file->bytes + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head->e_shnum)
            continue;
        uint64_t value = value_in_table(file, &sections[i], &sections[sections[i].sh_link], name);
        if (value != 0)
            return value;
    }
    return 0;
}

static void
find_stubs(const module_data_t *program)
{
    mapped_t file;
    if (program->full_path == NULL || !map_file(program->full_path, &file))
        return;
    const Elf64_Ehdr *head = (const void *)file.bytes;
    const Elf64_Shdr *sections = (const void *)(file.bytes + head->e_shoff);
    uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * sizeof(*sections);
    uint64_t bias = (uint64_t)program->start - (uint64_t)program->preferred_base;
    if (head->e_shoff != 0 && end <= file.size && head->e_shstrndx < head->e_shnum) {
        const Elf64_Shdr *names = &sections[head->e_shstrndx];
        for (int i = 0; i < head->e_shnum && stub_count < MOST_STUBS; i++) {
            uint64_t name = names->sh_offset + sections[i].sh_name;
            if (name + 4 <= file.size && memcmp(file.bytes + name, ".plt", 4) == 0) {
                stubs[stub_count].start = (app_pc)(bias + sections[i].sh_addr);
                stubs[stub_count].end = stubs[stub_count].start + sections[i].sh_size;
                stub_count++;
            }
        }
    }
    dr_unmap_file(file.bytes, file.size);
}

app_pc
symbol_address(const module_data_t *module, const char *name)
{
    app_pc address = (app_pc)dr_get_proc_address(module->handle, name);
    mapped_t file;
    bool is_main = module->start == main_start;
    if (address != NULL || !is_main || module->full_path == NULL ||
        !map_file(module->full_path, &file))
        return address;
    uint64_t value = value_in_file(&file, name);
    dr_unmap_file(file.bytes, file.size);
    uint64_t bias = (uint64_t)module->start - (uint64_t)module->preferred_base;
    return value == 0 ? NULL : (app_pc)(bias + value);
}

/* ---- events ---- */

static struct refrain_module *
describe(const module_data_t *module, uint32_t number, uint64_t bias, bool is_main)
{
    const char *path = module->full_path != NULL ? module->full_path : "";
    byte id[64];
    uint32_t id_bytes = build_id(module, bias, id, sizeof(id));
    uint32_t path_bytes = strlen(path);
    uint32_t bytes = (sizeof(struct refrain_module) + path_bytes + id_bytes + 7) & ~7u;
    struct refrain_module *record = dr_global_alloc(bytes);
    memset(record, 0, bytes);
    *record = (struct refrain_module){ { REFRAIN_RECORD_MODULE, bytes },
                                       number,
                                       path_bytes,
                                       id_bytes,
                                       is_main,
                                       bias,
                                       (uint64_t)module->end - bias };
    memcpy((byte *)(record + 1), path, path_bytes);
    memcpy((byte *)(record + 1) + path_bytes, id, id_bytes);
    return record;
}

static void
at_load(void *drcontext, const module_data_t *module, bool loaded)
{
    if (dr_memory_is_dr_internal(module->start) || dr_memory_is_in_client(module->start))
        return;
    uint64_t bias = (uint64_t)module->start - (uint64_t)module->preferred_base;
    bool is_main = module->start == main_start;
    dr_rwlock_write_lock(lock);
    uint32_t number = module_count < MOST_MODULES ? module_count + 1 : 0;
    if (number != 0) {
        if (module_count == module_room) {
            uint32_t room = module_room == 0 ? 64 : module_room * 2;
            module_t *more = dr_global_alloc(room * sizeof(*more));
            memcpy(more, modules, module_count * sizeof(*more));
            if (modules != NULL)
                dr_global_free(modules, module_room * sizeof(*modules));
            modules = more;
            module_room = room;
        }
        modules[module_count++] =
            (module_t){ module->start, module->end, bias, number, is_main, true,
                        describe(module, number, bias, is_main) };
        ledger_put(&modules[module_count - 1].record->head);
    }
    dr_rwlock_write_unlock(lock);
    segments_of_module(module, number);
    window_of_module(module);
}

static void
at_unload(void *drcontext, const module_data_t *module)
{
    dr_rwlock_write_lock(lock);
    module_t *known = module_at(module->start);
    if (known != NULL)
        known->is_loaded = false;
    dr_rwlock_write_unlock(lock);
}

void
modules_tell_again(void)
{
    lock = dr_rwlock_create();
    for (uint32_t i = 0; i < module_count; i++) {
        module_t *module = &modules[i];
        ledger_put(&module->record->head);
        if (module->is_loaded) {
            segment_begin(REFRAIN_SEGMENT_MODULE, module->number, (uint64_t)module->start,
                          module->end - module->start);
        }
    }
}

void
modules_start(void)
{
    lock = dr_rwlock_create();
    module_data_t *program = dr_get_main_module();
    if (program != NULL) {
        main_start = program->start;
        main_end = program->end;
        find_stubs(program);
        dr_free_module_data(program);
    }
    drmgr_register_module_load_event(at_load);
    drmgr_register_module_unload_event(at_unload);
}

void
modules_stop(void)
{
    for (uint32_t i = 0; i < module_count; i++)
        dr_global_free(modules[i].record, modules[i].record->head.bytes);
    if (modules != NULL)
        dr_global_free(modules, module_room * sizeof(*modules));
    dr_rwlock_destroy(lock);
}
