! Messages and collective operations; a part of fortran_calls.h.

    subroutine messages
        integer :: data(8), got(8), count, index, size, room(1000), i, indices(2), outcount
        logical :: flag
        STATUS_TYPE :: status
        STATUSES_TYPE(2) :: statuses
        HANDLE(MPI_Request) :: request, requests(2)
        HANDLE(MPI_Message) :: message
#ifdef MPI_F08
        type(c_ptr) :: detached
#else
        integer :: detached
#endif
        data = [(10 * rank + i, i = 1, 8)]

        if (rank == 0) then
            call mpi_send(data, 3, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierr)
            call called('MPI_Send(buf=' // address(loc(data)) // &
                ', count=3, datatype=MPI_INTEGER, dest=1, tag=7, comm=MPI_COMM_WORLD)')
            call mpi_ssend(data, 2, MPI_INTEGER, 1, 8, MPI_COMM_WORLD, ierr)
            call called('MPI_Ssend(count=2, datatype=MPI_INTEGER, dest=1, tag=8)')
            call mpi_buffer_attach(room, 4000, ierr)
            call called('MPI_Buffer_attach(size=4000)')
            call mpi_bsend(data, 4, MPI_INTEGER, 1, 9, MPI_COMM_WORLD, ierr)
            call called('MPI_Bsend(count=4, datatype=MPI_INTEGER, dest=1, tag=9)')
            call mpi_buffer_detach(detached, size, ierr)
            call called('MPI_Buffer_detach(buffer_addr=' // address(loc(room)) // ', size=4000)')
            call mpi_send(data, 1, MPI_INTEGER, 1, 10, MPI_COMM_WORLD, ierr)
            call called('MPI_Send(count=1, tag=10)')
            call mpi_send(data, 1, MPI_INTEGER, 1, 11, MPI_COMM_WORLD, ierr)
            call called('MPI_Send(count=1, tag=11)')
        else
            call mpi_recv(got, 8, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, status, ierr)
            call called('MPI_Recv(buf=' // address(loc(got)) // ', count=8, ' // &
                'datatype=MPI_INTEGER, source=0, tag=7, status={source=' // &
                number(SOURCE_OF(status)) // ', tag=' // number(TAG_OF(status)) // ', bytes=12})')
            call mpi_get_count(status, MPI_INTEGER, count, ierr)
            call called('MPI_Get_count(datatype=MPI_INTEGER, count=' // number(count) // ')')
            call mpi_get_elements(status, MPI_INTEGER, count, ierr)
            call called('MPI_Get_elements(datatype=MPI_INTEGER, count=' // number(count) // ')')
            call mpi_recv(got, 8, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
                MPI_STATUS_IGNORE, ierr)
            call called('MPI_Recv(count=8, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, ' // &
                'status={source=0, tag=8, bytes=8, ignored=true})')
            call mpi_probe(0, 9, MPI_COMM_WORLD, status, ierr)
            call called('MPI_Probe(source=0, tag=9, status={source=0, tag=9, bytes=16})')
            call mpi_iprobe(0, 9, MPI_COMM_WORLD, flag, status, ierr)
            call called('MPI_Iprobe(source=0, tag=9, flag=' // bool(flag) // &
                ', status={source=0, tag=9, bytes=16})')
            call mpi_recv(got, 4, MPI_INTEGER, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            call called('MPI_Recv(count=4, source=0, tag=9, status=MPI_STATUS_IGNORE)')
            call mpi_mprobe(0, 10, MPI_COMM_WORLD, message, status, ierr)
            call called('MPI_Mprobe(source=0, tag=10, message=message1, ' // &
                'status={source=0, tag=10, bytes=4})')
            call mpi_mrecv(got, 1, MPI_INTEGER, message, status, ierr)
            call called('MPI_Mrecv(count=1, message=message1, ' // &
                'status={source=0, tag=10, bytes=4})')
            call mpi_recv(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, status, ierr)
            call called('MPI_Recv(source=MPI_ANY_SOURCE, status={source=0, tag=11, bytes=4})')
        end if

        call mpi_sendrecv(data, 2, MPI_INTEGER, peer, 1, got, 2, MPI_INTEGER, peer, 1, &
            MPI_COMM_WORLD, status, ierr)
        call called('MPI_Sendrecv(sendcount=2, dest=' // number(peer) // &
            ', recvcount=2, status={source=' // number(peer) // ', tag=1, bytes=8})')
        call mpi_sendrecv_replace(data, 2, MPI_INTEGER, peer, 2, peer, 2, MPI_COMM_WORLD, &
            MPI_STATUS_IGNORE, ierr)
        call called('MPI_Sendrecv_replace(count=2, dest=' // number(peer) // ')')
        call mpi_send(data, 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, ierr)
        call called('MPI_Send(count=1, dest=MPI_PROC_NULL)')

        call mpi_irecv(got, 4, MPI_INTEGER, peer, 3, MPI_COMM_WORLD, requests(1), ierr)
        call called('MPI_Irecv(count=4, source=' // number(peer) // ', tag=3, request=r1)')
        call mpi_isend(data, 4, MPI_INTEGER, peer, 3, MPI_COMM_WORLD, requests(2), ierr)
        call called('MPI_Isend(count=4, dest=' // number(peer) // ', tag=3, request=r2)')
        call mpi_waitall(2, requests, statuses, ierr)
        call called('MPI_Waitall(count=2, array_of_requests=[r1, r2], array_of_statuses=' // &
            '[{source=' // number(peer) // ', tag=3, bytes=16}, _])')
        call mpi_irecv(got, 4, MPI_INTEGER, peer, 4, MPI_COMM_WORLD, requests(1), ierr)
        call called('MPI_Irecv(request=r1)')
        call mpi_issend(data, 4, MPI_INTEGER, peer, 4, MPI_COMM_WORLD, requests(2), ierr)
        call called('MPI_Issend(request=r2)')
        call mpi_waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
        call called('MPI_Waitall(array_of_requests=[r1, r2])')
        call mpi_irecv(got, 4, MPI_INTEGER, peer, 5, MPI_COMM_WORLD, request, ierr)
        call called('MPI_Irecv(request=r1)')
        call mpi_send(data, 4, MPI_INTEGER, peer, 5, MPI_COMM_WORLD, ierr)
        call called('MPI_Send(tag=5)')
        call mpi_wait(request, status, ierr)
        call called('MPI_Wait(request=r1, status={source=' // number(peer) // &
            ', tag=5, bytes=16})')
        call mpi_test(request, flag, status, ierr)
        call called('MPI_Test(request=MPI_REQUEST_NULL, flag=' // bool(flag) // ')')
        requests(1) = MPI_REQUEST_NULL
        call mpi_irecv(got, 4, MPI_INTEGER, peer, 6, MPI_COMM_WORLD, requests(2), ierr)
        call called('MPI_Irecv(request=r1)')
        call mpi_send(data, 1, MPI_INTEGER, peer, 6, MPI_COMM_WORLD, ierr)
        call called('MPI_Send(tag=6)')
        call mpi_waitany(2, requests, index, status, ierr)
        call called('MPI_Waitany(count=2, array_of_requests=[MPI_REQUEST_NULL, r1], ' // &
            'index=1, status={source=' // number(peer) // ', tag=6, bytes=4})')
        call mpi_waitsome(2, requests, outcount, indices, statuses, ierr)
        call called('MPI_Waitsome(incount=2, outcount=MPI_UNDEFINED)')

        call mpi_recv_init(got, 4, MPI_INTEGER, peer, 12, MPI_COMM_WORLD, requests(1), ierr)
        call called('MPI_Recv_init(tag=12, request=r1)')
        call mpi_send_init(data, 4, MPI_INTEGER, peer, 12, MPI_COMM_WORLD, requests(2), ierr)
        call called('MPI_Send_init(tag=12, request=r2)')
        do i = 1, 2
            call mpi_startall(2, requests, ierr)
            call called('MPI_Startall(count=2, array_of_requests=[r1, r2])')
            call mpi_waitall(2, requests, statuses, ierr)
            call called('MPI_Waitall(array_of_requests=[r1, r2])')
        end do
        do i = 1, 2
            call mpi_request_free(requests(i), ierr)
            call called('MPI_Request_free(request=r' // number(i) // ')')
        end do

        call mpi_irecv(got, 1, MPI_INTEGER, peer, 13, MPI_COMM_WORLD, request, ierr)
        call called('MPI_Irecv(tag=13, request=r1)')
        call mpi_cancel(request, ierr)
        call called('MPI_Cancel(request=r1)')
        call mpi_wait(request, status, ierr)
        call called('MPI_Wait(request=r1)')
        call mpi_test_cancelled(status, flag, ierr)
        call called('MPI_Test_cancelled(flag=true)')
    end subroutine

    subroutine collectives
        integer :: data(4), got(8), op_result(2), counts(2), offsets(2), i
        HANDLE(MPI_Op) :: op
        HANDLE(MPI_Request) :: request
        HANDLE(MPI_Datatype) :: types(2)
        STATUS_TYPE :: status
        logical :: commutes
        integer :: at

        data = [(10 * rank + i, i = 1, 4)]
        counts = [1, 2]
        offsets = [0, 1]
        types = MPI_INTEGER

        call barrier
        call mpi_bcast(data, 4, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
        call called('MPI_Bcast(count=4, datatype=MPI_INTEGER, root=1, comm=MPI_COMM_WORLD)')
        call mpi_reduce(data, got, 4, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
        call called('MPI_Reduce(count=4, op=MPI_SUM, root=0)')
        got(1) = rank + 1
        call mpi_allreduce(MPI_IN_PLACE, got, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
        call called('MPI_Allreduce(sendbuf=MPI_IN_PLACE, count=1, op=MPI_MAX)')
        call mpi_scan(data, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        call called('MPI_Scan(count=1, op=MPI_SUM)')
        call mpi_exscan(data, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        call called('MPI_Exscan(count=1, op=MPI_SUM)')
        call mpi_gather(data, 1, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
        call called('MPI_Gather(sendcount=1, recvcount=1, root=0)')
        call mpi_scatter(data, 1, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
        call called('MPI_Scatter(sendcount=1, recvcount=1, root=0)')
        call mpi_allgather(data, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
        call called('MPI_Allgather(sendcount=1, recvcount=1)')
        call mpi_alltoall(data, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
        call called('MPI_Alltoall(sendcount=1, recvcount=1)')

        call mpi_gatherv(data, counts(rank + 1), MPI_INTEGER, got, counts, offsets, &
            MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
        if (rank == 0) call called('MPI_Gatherv(sendcount=1, recvcounts=[1, 2], displs=[0, 1])')
        if (rank == 1) call called('MPI_Gatherv(sendcount=2, recvcounts=insignificant)')
        call mpi_scatterv(data, counts, offsets, MPI_INTEGER, got, counts(rank + 1), &
            MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
        if (rank == 0) call called('MPI_Scatterv(sendcounts=[1, 2], displs=[0, 1], recvcount=1)')
        if (rank == 1) call called('MPI_Scatterv(sendcounts=insignificant, recvcount=2)')
        call mpi_allgatherv(data, counts(rank + 1), MPI_INTEGER, got, counts, offsets, &
            MPI_INTEGER, MPI_COMM_WORLD, ierr)
        call called('MPI_Allgatherv(recvcounts=[1, 2], displs=[0, 1])')
        counts = 1
        call mpi_alltoallv(data, counts, offsets, MPI_INTEGER, got, counts, offsets, &
            MPI_INTEGER, MPI_COMM_WORLD, ierr)
        call called('MPI_Alltoallv(sendcounts=[1, 1], sdispls=[0, 1], recvcounts=[1, 1])')
        offsets = [0, 4]
        call mpi_alltoallw(data, counts, offsets, types, got, counts, offsets, types, &
            MPI_COMM_WORLD, ierr)
        call called('MPI_Alltoallw(sendcounts=[1, 1], sdispls=[0, 4], ' // &
            'sendtypes=[MPI_INTEGER, MPI_INTEGER], recvtypes=[MPI_INTEGER, MPI_INTEGER])')
        call mpi_reduce_scatter(data, got, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        call called('MPI_Reduce_scatter(recvcounts=[1, 1], op=MPI_SUM)')
        call mpi_reduce_scatter_block(data, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        call called('MPI_Reduce_scatter_block(recvcount=1, op=MPI_SUM)')

        call mpi_ibarrier(MPI_COMM_WORLD, request, ierr)
        call called('MPI_Ibarrier(request=r1)')
        call mpi_wait(request, MPI_STATUS_IGNORE, ierr)
        call called('MPI_Wait(request=r1)')
        call mpi_iallreduce(data, got, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, ierr)
        call called('MPI_Iallreduce(count=4, request=r1)')
        call mpi_wait(request, MPI_STATUS_IGNORE, ierr)
        call called('MPI_Wait(request=r1)')
        call mpi_igatherv(data, 1, MPI_INTEGER, got, counts, offsets, MPI_INTEGER, 0, &
            MPI_COMM_WORLD, request, ierr)
        call called('MPI_Igatherv(sendcount=1, request=r1)')
        call mpi_wait(request, MPI_STATUS_IGNORE, ierr)
        call called('MPI_Wait(request=r1)')
        call mpi_ialltoallw(data, counts, offsets, types, got, counts, offsets, types, &
            MPI_COMM_WORLD, request, ierr)
        call called('MPI_Ialltoallw(sendcounts=[1, 1], request=r1)')
        call mpi_wait(request, MPI_STATUS_IGNORE, ierr)
        call called('MPI_Wait(request=r1)')

        call mpi_op_create(add, .true., op, ierr)
        call called('MPI_Op_create(commute=true, op=op1)')
        call mpi_op_commutative(op, commutes, ierr)
        call called('MPI_Op_commutative(op=op1, commute=' // bool(commutes) // ')')
        op_result = [1, 2]
        at = calling()
        call mpi_reduce_local(data, op_result, 2, MPI_INTEGER, op, ierr)
        call called_at(at, 'MPI_Reduce_local(count=2, datatype=MPI_INTEGER, op=op1)')
        call mpi_op_free(op, ierr)
        call called('MPI_Op_free(op=op1)')

        at = calling()
        call mpi_grequest_start(query, free, cancel, 41_aint, request, ierr)
        call called_at(at, 'MPI_Grequest_start(extra_state=0x29, request=r1)')
        call mpi_grequest_complete(request, ierr)
        call called('MPI_Grequest_complete(request=r1)')
        at = calling()
        call mpi_wait(request, status, ierr)
        call called_at(at, 'MPI_Wait(request=r1, status={source=' // number(SOURCE_OF(status)) &
            // ', tag=' // number(TAG_OF(status)) // ', bytes=20})')
    end subroutine
