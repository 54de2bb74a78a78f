/* The C limit with io_uring, by its system calls alone: multishot accept into the
   ring's own file table, multishot receive into provided buffers, one send for each
   request, one enter for each batch. Needs Linux 6.1.

   limit-uring [-c NAME] [-n MICROSECONDS] PORT ROOT DIRECTORIES

   -c  congestion control of the connections, the system's without
   -n  never wait for work: look every so many microseconds. Then nobody pays for
       waking this server but itself, as with a network card that moderates its
       interrupts; over loopback it would be its clients. */
#include "answers.h"
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { ENTRIES = 4096, BUFFERS = 4096 /* a power of two */, GROUP = 1 };
enum kind { ACCEPT = 1, RECEIVE, SEND, CLOSE };

static int ring;
static unsigned *sq_head, *sq_tail, *sq_mask, *cq_head, *cq_tail, *cq_mask, tail;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *pool;
static char *buffers;

static int enter(unsigned wait)
{
	unsigned begun = __atomic_load_n(sq_head, __ATOMIC_ACQUIRE);
	__atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
	return syscall(__NR_io_uring_enter, ring, tail - begun, wait, IORING_ENTER_GETEVENTS, 0, 0);
}

/* next returns a cleared entry; slot is the connection's place in the file table. */
static struct io_uring_sqe *next(enum kind kind, unsigned slot, uint8_t op)
{
	if (tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) == ENTRIES)
		enter(0);
	struct io_uring_sqe *s = &sqes[tail++ & *sq_mask];
	memset(s, 0, sizeof *s);
	s->opcode = op;
	s->fd = slot;
	s->user_data = (uint64_t)kind << 32 | slot;
	return s;
}

static void receive(unsigned slot)
{
	struct io_uring_sqe *s = next(RECEIVE, slot, IORING_OP_RECV);
	s->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	s->ioprio = IORING_RECV_MULTISHOT;
	s->buf_group = GROUP;
}

static void finish(unsigned slot)
{
	struct io_uring_sqe *s = next(CLOSE, 0, IORING_OP_CLOSE);
	s->file_index = slot + 1;
}

static void accept_all(int listener)
{
	struct io_uring_sqe *s = next(ACCEPT, listener, IORING_OP_ACCEPT);
	s->ioprio = IORING_ACCEPT_MULTISHOT;
	s->file_index = IORING_FILE_INDEX_ALLOC;
}

static void give_back(unsigned id)
{
	struct io_uring_buf *b = &pool->bufs[pool->tail & (BUFFERS - 1)];
	b->addr = (uintptr_t)(buffers + id * REQUEST_MAX);
	b->len = REQUEST_MAX;
	b->bid = id;
	__atomic_store_n(&pool->tail, pool->tail + 1, __ATOMIC_RELEASE);
}

/* half_close lets the peer know that no more will come; it closes, and so do we. */
static void half_close(unsigned slot)
{
	struct io_uring_sqe *s = next(SEND, slot, IORING_OP_SHUTDOWN);
	s->flags = IOSQE_FIXED_FILE;
	s->len = SHUT_WR;
}

static void answer(unsigned slot, const char *b, long n)
{
	const struct answer *a = answer_to(b, n);
	if (!a) {
		half_close(slot);
		return;
	}
	struct io_uring_sqe *s = next(SEND, slot, IORING_OP_SEND);
	s->flags = IOSQE_FIXED_FILE;
	s->addr = (uintptr_t)a->bytes;
	s->len = a->length;
	s->msg_flags = MSG_WAITALL | MSG_NOSIGNAL; /* the kernel sees to the rest of a long one */
	if (says_close(b, n)) {
		s->flags |= IOSQE_IO_LINK;
		half_close(slot);
	}
}

static void received(unsigned slot, const struct io_uring_cqe *c)
{
	if (c->res > 0) { /* only then a buffer was used */
		unsigned id = c->flags >> IORING_CQE_BUFFER_SHIFT;
		answer(slot, buffers + id * REQUEST_MAX, c->res);
		give_back(id);
	}
	if (c->flags & IORING_CQE_F_MORE)
		return;
	if (c->res > 0 || c->res == -ENOBUFS)
		receive(slot);
	else
		finish(slot);
}

static void *map(size_t length, off_t offset)
{
	void *p = mmap(0, length, PROT_READ | PROT_WRITE, (offset < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_POPULATE,
		offset < 0 ? -1 : ring, offset < 0 ? 0 : offset);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void set_up(void)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
		.cq_entries = 4 * ENTRIES,
	};
	if ((ring = syscall(__NR_io_uring_setup, ENTRIES, &p)) < 0)
		die("io_uring_setup");
	size_t cq_end = p.cq_off.cqes + p.cq_entries * sizeof *cqes, sq_end = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	char *r = map(cq_end > sq_end ? cq_end : sq_end, IORING_OFF_SQ_RING); /* both rings, since Linux 5.4 */
	sqes = map(p.sq_entries * sizeof *sqes, IORING_OFF_SQES);
	sq_head = (unsigned *)(r + p.sq_off.head), sq_tail = (unsigned *)(r + p.sq_off.tail), sq_mask = (unsigned *)(r + p.sq_off.ring_mask);
	cq_head = (unsigned *)(r + p.cq_off.head), cq_tail = (unsigned *)(r + p.cq_off.tail), cq_mask = (unsigned *)(r + p.cq_off.ring_mask);
	cqes = (struct io_uring_cqe *)(r + p.cq_off.cqes);
	for (unsigned i = 0; i < p.sq_entries; i++)
		((unsigned *)(r + p.sq_off.array))[i] = i;

	struct rlimit most; /* also of the ring's own file table */
	getrlimit(RLIMIT_NOFILE, &most);
	struct io_uring_rsrc_register files = {.nr = most.rlim_cur < MAX_CONNECTIONS ? most.rlim_cur : MAX_CONNECTIONS, .flags = IORING_RSRC_REGISTER_SPARSE};
	if (syscall(__NR_io_uring_register, ring, IORING_REGISTER_FILES2, &files, sizeof files) < 0)
		die("file table");
	buffers = map((size_t)BUFFERS * REQUEST_MAX, -1);
	pool = map(BUFFERS * sizeof(struct io_uring_buf), -1);
	struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)pool, .ring_entries = BUFFERS, .bgid = GROUP};
	if (syscall(__NR_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &reg, 1) < 0)
		die("buffer ring");
	for (unsigned i = 0; i < BUFFERS; i++)
		give_back(i);
}

int main(int argc, char **argv)
{
	struct timespec nap = {0};
	const char *congestion = 0;
	usage = "limit-uring [-c NAME] [-n MICROSECONDS] PORT ROOT DIRECTORIES";
	for (int o; (o = getopt(argc, argv, "c:n:")) != -1;) {
		switch (o) {
		case 'c': congestion = optarg; break;
		case 'n':
			nap.tv_nsec = 1000L * atoi(optarg);
			if (nap.tv_nsec < 1000 || nap.tv_nsec >= 1000000000)
				argc = 0; /* start says how */
			break;
		default: argc = 0;
		}
	}
	if (nap.tv_nsec)
		prctl(PR_SET_TIMERSLACK, 1); /* nanoseconds */
	int listener = start(argc - optind, argv + optind, 0);
	if (congestion && setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)) < 0)
		die(congestion); /* accepted sockets inherit it */
	set_up();
	accept_all(listener);
	for (;;) {
		if (enter(!nap.tv_nsec) < 0 && errno != EINTR)
			die("io_uring_enter");
		unsigned head = *cq_head, end = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
		if (head == end && nap.tv_nsec)
			nanosleep(&nap, 0);
		for (; head != end; head++) {
			const struct io_uring_cqe *c = &cqes[head & *cq_mask];
			unsigned slot = (unsigned)c->user_data;
			switch (c->user_data >> 32) {
			case ACCEPT:
				if (c->res >= 0)
					receive(c->res);
				if (!(c->flags & IORING_CQE_F_MORE))
					accept_all(listener);
				break;
			case RECEIVE:
				received(slot, c);
				break;
			}
		}
		__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
	}
}
