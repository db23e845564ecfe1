! Communicators, topologies, datatypes and infos; a part of fortran_calls.h.

    subroutine communicators
        HANDLE(MPI_Comm) :: comm, grid, row, graph, half, inter, both
        HANDLE(MPI_Group) :: group, part
        HANDLE(MPI_Datatype) :: types(2)
        integer :: dims(2), coords(2), at, source, dest, topology, length, ranks(2), got(8), n
        integer :: data(4), counts(2), offsets(2), degrees(2), result
        integer(kind=aint) :: places(2)
        logical :: periods(2), flag
        character(len=MPI_MAX_OBJECT_NAME) :: name

        call mpi_comm_dup(MPI_COMM_WORLD, comm, ierr)
        call called('MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=comm1)')
        call mpi_comm_set_name(comm, 'a name, padded     ', ierr)
        call called('MPI_Comm_set_name(comm=comm1, comm_name="a name, padded")')
        call mpi_comm_get_name(comm, name, length, ierr)
        call called('MPI_Comm_get_name(comm=comm1, comm_name=' // quoted(name) // &
            ', resultlen=14)')
        call mpi_comm_compare(MPI_COMM_WORLD, comm, result, ierr)
        call called('MPI_Comm_compare(comm1=MPI_COMM_WORLD, comm2=comm1, result=MPI_CONGRUENT)')
        call mpi_comm_group(comm, group, ierr)
        call called('MPI_Comm_group(comm=comm1, group=group1)')
        call mpi_group_incl(group, 1, [rank], part, ierr)
        call called('MPI_Group_incl(group=group1, n=1, ranks=[' // number(rank) // &
            '], newgroup=group2)')
        call mpi_group_translate_ranks(group, 2, [0, 1], part, ranks, ierr)
        if (rank == 0) call called('MPI_Group_translate_ranks(ranks1=[0, 1], ' // &
            'ranks2=[0, MPI_UNDEFINED])')
        if (rank == 1) call called('MPI_Group_translate_ranks(ranks1=[0, 1], ' // &
            'ranks2=[MPI_UNDEFINED, 0])')
        call mpi_group_free(part, ierr)
        call called('MPI_Group_free(group=group2)')
        call mpi_group_free(group, ierr)
        call called('MPI_Group_free(group=group1)')
        call mpi_comm_split(comm, rank, 0, half, ierr)
        call called('MPI_Comm_split(comm=comm1, color=' // number(rank) // &
            ', key=0, newcomm=comm2)')
        call mpi_intercomm_create(half, 0, comm, peer, 5, inter, ierr)
        call called('MPI_Intercomm_create(local_comm=comm2, local_leader=0, ' // &
            'peer_comm=comm1, remote_leader=' // number(peer) // ', tag=5, newintercomm=comm3)')
        call mpi_comm_test_inter(inter, flag, ierr)
        call called('MPI_Comm_test_inter(comm=comm3, flag=' // bool(flag) // ')')
        call mpi_intercomm_merge(inter, rank == 1, both, ierr)
        call called('MPI_Intercomm_merge(intercomm=comm3, high=' // bool(rank == 1) // &
            ', newintracomm=comm4)')
        call mpi_comm_free(both, ierr)
        call called('MPI_Comm_free(comm=comm4)')
        call mpi_comm_free(inter, ierr)
        call called('MPI_Comm_free(comm=comm3)')
        call mpi_comm_free(half, ierr)
        call called('MPI_Comm_free(comm=comm2)')

        dims = 0
        call mpi_dims_create(2, 2, dims, ierr)
        call called('MPI_Dims_create(nnodes=2, ndims=2, dims=[0, 0]→[2, 1])')
        periods = [.true., .false.]
        call mpi_cart_create(comm, 2, dims, periods, .false., grid, ierr)
        call called('MPI_Cart_create(comm_old=comm1, ndims=2, dims=[2, 1], ' // &
            'periods=[true, false], reorder=false, comm_cart=comm2)')
        call mpi_topo_test(grid, topology, ierr)
        call called('MPI_Topo_test(comm=comm2, status=MPI_CART)')
        call mpi_cart_coords(grid, rank, 2, coords, ierr)
        call called('MPI_Cart_coords(comm=comm2, rank=' // number(rank) // &
            ', maxdims=2, coords=' // list(coords) // ')')
        call mpi_cart_rank(grid, coords, at, ierr)
        call called('MPI_Cart_rank(comm=comm2, coords=' // list(coords) // ', rank=' // &
            number(at) // ')')
        call mpi_cart_shift(grid, 0, 1, source, dest, ierr)
        call called('MPI_Cart_shift(comm=comm2, direction=0, disp=1, rank_source=' // &
            number(source) // ', rank_dest=' // number(dest) // ')')
        call mpi_cart_get(grid, 2, dims, periods, coords, ierr)
        call called('MPI_Cart_get(comm=comm2, dims=[2, 1], periods=[true, false], coords=' // &
            list(coords) // ')')
        call mpi_cartdim_get(grid, n, ierr)
        call called('MPI_Cartdim_get(comm=comm2, ndims=2)')
        call mpi_cart_sub(grid, [.true., .false.], row, ierr)
        call called('MPI_Cart_sub(comm=comm2, remain_dims=[true, false], newcomm=comm3)')
        call mpi_comm_free(row, ierr)
        call called('MPI_Comm_free(comm=comm3)')
        call mpi_comm_free(grid, ierr)
        call called('MPI_Comm_free(comm=comm2)')

        call mpi_dist_graph_create_adjacent(comm, 1, [peer], [2], 1, [peer], [3], &
            MPI_INFO_NULL, .false., graph, ierr)
        call called('MPI_Dist_graph_create_adjacent(indegree=1, sources=[' // number(peer) // &
            '], sourceweights=[2], outdegree=1, destweights=[3], comm_dist_graph=comm2)')
        call mpi_dist_graph_neighbors_count(graph, degrees(1), degrees(2), flag, ierr)
        call called('MPI_Dist_graph_neighbors_count(comm=comm2, indegree=1, outdegree=1, ' // &
            'weighted=' // bool(flag) // ')')
        data = 1
        counts = 1
        offsets = 0
        places = 0
        types = MPI_INTEGER
        call mpi_neighbor_alltoallv(data, counts, offsets, MPI_INTEGER, got, counts, offsets, &
            MPI_INTEGER, graph, ierr)
        call called('MPI_Neighbor_alltoallv(sendcounts=[1], sdispls=[0], recvcounts=[1])')
        call mpi_neighbor_alltoallw(data, counts, places, types, got, counts, places, types, &
            graph, ierr)
        call called('MPI_Neighbor_alltoallw(sendcounts=[1], sendtypes=[MPI_INTEGER])')
        call mpi_comm_free(graph, ierr)
        call called('MPI_Comm_free(comm=comm2)')
        call mpi_dist_graph_create_adjacent(comm, 1, [peer], MPI_UNWEIGHTED, 1, [peer], &
            MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierr)
        call called('MPI_Dist_graph_create_adjacent(sourceweights=MPI_UNWEIGHTED)')
        call mpi_comm_free(graph, ierr)
        call called('MPI_Comm_free(comm=comm2)')
        call mpi_comm_free(comm, ierr)
        call called('MPI_Comm_free(comm=comm1)')
    end subroutine

    subroutine datatypes
        HANDLE(MPI_Datatype) :: one, two, three
        integer :: size, counts(4), position, packed(16), data(8), ints(8), combiner
        integer(kind=aint) :: low, extent, places(4), first, second, sum
        HANDLE(MPI_Datatype) :: types(4)
#ifdef MPI_UNTYPED
        integer(kind=aint), external :: mpi_aint_add, mpi_aint_diff
#endif

        data = 1
        call mpi_type_vector(2, 1, 2, MPI_INTEGER, one, ierr)
        call called('MPI_Type_vector(count=2, blocklength=1, stride=2, oldtype=MPI_INTEGER, ' // &
            'newtype=type1)')
        call mpi_type_commit(one, ierr)
        call called('MPI_Type_commit(datatype=type1)')
        call mpi_type_size(one, size, ierr)
        call called('MPI_Type_size(datatype=type1, size=' // number(size) // ')')
        call mpi_type_get_extent(one, low, extent, ierr)
        call called('MPI_Type_get_extent(datatype=type1, lb=' // long(low) // ', extent=' // &
            long(extent) // ')')
        call mpi_type_get_envelope(one, counts(1), counts(2), counts(3), combiner, ierr)
        call called('MPI_Type_get_envelope(datatype=type1, num_integers=3, ' // &
            'num_addresses=0, num_datatypes=1, combiner=MPI_COMBINER_VECTOR)')
        call mpi_type_get_contents(one, 3, 0, 1, ints, places, types, ierr)
        call called('MPI_Type_get_contents(datatype=type1, array_of_integers=[2, 1, 2], ' // &
            'array_of_datatypes=[MPI_INTEGER])')
        call mpi_type_indexed(2, [1, 2], [0, 4], MPI_REAL, two, ierr)
        call called('MPI_Type_indexed(count=2, array_of_blocklengths=[1, 2], ' // &
            'array_of_displacements=[0, 4], oldtype=MPI_REAL, newtype=type2)')
        call mpi_type_create_struct(2, [1, 1], [0_aint, 64_aint], [one, two], three, ierr)
        call called('MPI_Type_create_struct(count=2, array_of_displacements=[0, 64], ' // &
            'array_of_types=[type1, type2], newtype=type3)')
        call mpi_type_free(three, ierr)
        call called('MPI_Type_free(datatype=type3)')
        call mpi_type_free(two, ierr)
        call called('MPI_Type_free(datatype=type2)')
        call mpi_type_create_resized(one, 0_aint, 32_aint, two, ierr)
        call called('MPI_Type_create_resized(oldtype=type1, lb=0, extent=32, newtype=type2)')
        call mpi_type_free(two, ierr)
        call called('MPI_Type_free(datatype=type2)')
        call mpi_type_create_subarray(2, [4, 4], [2, 2], [1, 1], MPI_ORDER_FORTRAN, &
            MPI_DOUBLE_PRECISION, two, ierr)
        call called('MPI_Type_create_subarray(ndims=2, array_of_sizes=[4, 4], ' // &
            'array_of_subsizes=[2, 2], array_of_starts=[1, 1], order=MPI_ORDER_FORTRAN, ' // &
            'oldtype=MPI_DOUBLE_PRECISION, newtype=type2)')
        call mpi_type_free(two, ierr)
        call called('MPI_Type_free(datatype=type2)')

        call mpi_pack_size(2, one, MPI_COMM_WORLD, size, ierr)
        call called('MPI_Pack_size(incount=2, datatype=type1, size=' // number(size) // ')')
        position = 0
        call mpi_pack(data, 1, one, packed, 64, position, MPI_COMM_WORLD, ierr)
        call called('MPI_Pack(incount=1, datatype=type1, outsize=64, position=0→' // &
            number(position) // ')')
        position = 0
        call mpi_unpack(packed, 64, position, data, 1, one, MPI_COMM_WORLD, ierr)
        call called('MPI_Unpack(insize=64, outcount=1, datatype=type1)')
        position = 0
        call mpi_pack_external('external32   ', data, 2, MPI_INTEGER, packed, 64_aint, low, ierr)
        call called('MPI_Pack_external(datarep="external32", incount=2)')
        call mpi_type_free(one, ierr)
        call called('MPI_Type_free(datatype=type1)')

#ifndef MPI_UNTYPED
        ! Fortran alone has it, so there is no function of C to write down.
        call mpi_sizeof(data, size, ierr)
        if (ierr /= MPI_SUCCESS .or. size /= 4) error stop 'the size of integers is wrong'
        ierr = untouched
#endif
        call mpi_type_match_size(MPI_TYPECLASS_REAL, 8, one, ierr)
        call called('MPI_Type_match_size(typeclass=MPI_TYPECLASS_REAL, size=8, ' // &
            'datatype=MPI_REAL8)')
        call pmpi_type_match_size(MPI_TYPECLASS_INTEGER, 4, one, ierr)
        call called('MPI_Type_match_size(typeclass=MPI_TYPECLASS_INTEGER, size=4)')
        call mpi_type_create_f90_real(15, MPI_UNDEFINED, one, ierr)
        call called('MPI_Type_create_f90_real(p=15, r=' // number(MPI_UNDEFINED) // ')')

        call mpi_get_address(data(1), first, ierr)
        call called('MPI_Get_address(location=' // address(loc(data(1))) // ', address=' // &
            long(first) // ')')
        call mpi_get_address(data(3), second, ierr)
        call called('MPI_Get_address(address=' // long(second) // ')')
        sum = mpi_aint_diff(second, first)
        call called_plain('MPI_Aint_diff(addr1=' // address(second) // ', addr2=' // &
            address(first) // ') = 8')
        sum = mpi_aint_add(first, 12_aint)
        call called_plain('MPI_Aint_add(base=' // address(first) // ', disp=12) = ' // long(sum))
    end subroutine

    subroutine infos
        HANDLE(MPI_Info) :: info, copy
        character(len=20) :: key, value
        integer :: n
        logical :: flag

        call mpi_info_create(info, ierr)
        call called('MPI_Info_create(info=info1)')
        call mpi_info_set(info, 'some key    ', 'some value        ', ierr)
        call called('MPI_Info_set(info=info1, key="some key", value="some value")')
        key = 'some key'
        value = repeat('x', 20)
        call mpi_info_get(info, key, 20, value, flag, ierr)
        call called('MPI_Info_get(info=info1, key="some key", valuelen=20, value=' // &
            quoted(value) // ', flag=true)')
        call pmpi_info_get(info, key, 20, value, flag, ierr)
        call called('MPI_Info_get(info=info1, key="some key", valuelen=20, value=' // &
            quoted(value) // ', flag=true)')
        call mpi_info_get(info, 'another', 20, value, flag, ierr)
        call called('MPI_Info_get(key="another", value=unset, flag=false)')
        call mpi_info_get_valuelen(info, 'some key  ', n, flag, ierr)
        call called('MPI_Info_get_valuelen(key="some key", valuelen=' // number(n) // &
            ', flag=true)')
        call mpi_info_get_nkeys(info, n, ierr)
        call called('MPI_Info_get_nkeys(info=info1, nkeys=1)')
        call mpi_info_get_nthkey(info, 0, key, ierr)
        call called('MPI_Info_get_nthkey(info=info1, n=0, key="some key")')
        call mpi_info_dup(info, copy, ierr)
        call called('MPI_Info_dup(info=info1, newinfo=info2)')
        call mpi_info_delete(copy, 'some key     ', ierr)
        call called('MPI_Info_delete(info=info2, key="some key")')
        call mpi_info_free(copy, ierr)
        call called('MPI_Info_free(info=info2)')
        call mpi_info_free(info, ierr)
        call called('MPI_Info_free(info=info1)')
    end subroutine
