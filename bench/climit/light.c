/* The light client: a closed loop over many connections that costs as little as it
   can, so that the server is what gets measured. It asks for the entries of a fixed
   sequence in turn, checks status and length of every reply and throws the bodies
   away inside the kernel (MSG_TRUNC). Result: one line of JSON.

   light [-c connections] [-d seconds] [-p depth] [-1] [-r] [-i | -s] PORT LIST

   -p  so many requests in one send, the next ones when all are answered
   -1  one request for each connection, which the server closes
   -r  LIST holds whole requests and not paths
   -i  one request on each connection, which then stays idle
   -s  steady: count from when each connection has had an answer, and keep all of them
       open after the result, until killed
   With both a line says "ready" when each connection has had its answer.

   LIST is text: "paths entries", then as many lines "path length", then the sequence
   as numbers of paths. With -r it is "requests", then for each in turn a line "length
   size" and size bytes: the request as it is sent. A length below 0 asks for a body of
   at least so many bytes: pages carry words of their own around a file. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 4096, DEPTH_MAX = 64, REQUEST_MAX = 1100, EVENTS = 512 };

struct request {
	char *bytes;
	int length;
	long expected; /* of the body */
};

struct connection {
	int fd, connected;
	int asked, answered; /* of the present batch */
	int seen;            /* has had an answer, on this or an earlier socket */
	int have;            /* bytes in head */
	long body;           /* bytes of the present body still to come; -1: its head is awaited */
	struct request *batch[DEPTH_MAX];
	char head[HEAD_MAX + 1];
};

static struct {
	unsigned long requests, connects, reconnects, bytes;
	unsigned long bad_status, bad_length, bad_head, broken;
} count;

static struct request *requests;
static unsigned *sequence;
static long entries, place;
static int depth = 1, single, raw, idle, steady, ep;
static int seen; /* connections that have had an answer */
static struct sockaddr_in server = {.sin_family = AF_INET};
static char scratch[1 << 20]; /* never written: MSG_TRUNC only counts */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void read_requests(FILE *f, const char *name)
{
	if (fscanf(f, "%ld", &entries) != 1 || entries < 1)
		die(name);
	requests = calloc(entries, sizeof *requests);
	sequence = calloc(entries, sizeof *sequence);
	for (long i = 0; i < entries; i++) {
		struct request *r = &requests[i];
		if (fscanf(f, "%ld %d", &r->expected, &r->length) != 2 || fgetc(f) != '\n' || r->length < 1 || r->length > REQUEST_MAX)
			die(name);
		r->bytes = malloc(r->length);
		if (fread(r->bytes, 1, r->length, f) != (size_t)r->length)
			die(name);
		sequence[i] = i;
	}
	fclose(f);
}

static void read_list(const char *name, int port)
{
	long paths;
	FILE *f = fopen(name, "r");
	if (f && raw) {
		read_requests(f, name);
		return;
	}
	if (!f || fscanf(f, "%ld %ld", &paths, &entries) != 2 || paths < 1 || entries < 1)
		die(name);
	requests = calloc(paths, sizeof *requests);
	sequence = calloc(entries, sizeof *sequence);
	for (long i = 0; i < paths; i++) {
		char path[1024];
		if (fscanf(f, "%1023s %ld", path, &requests[i].expected) != 2)
			die(name);
		requests[i].length = asprintf(&requests[i].bytes, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n",
			path, port, single ? "Connection: close\r\n" : "");
	}
	for (long i = 0; i < entries; i++)
		if (fscanf(f, "%u", &sequence[i]) != 1 || sequence[i] >= paths)
			die(name);
	fclose(f);
}

static void open_connection(struct connection *c)
{
	int one = 1;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		die("socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS)
		die("connect");
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
	epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
	c->connected = c->asked = c->answered = c->have = 0;
	c->body = -1;
	count.connects++;
}

static void again(struct connection *c)
{
	close(c->fd);
	open_connection(c);
}

/* ask sends the next batch. It is far smaller than a socket's buffer. */
static void ask(struct connection *c)
{
	char b[DEPTH_MAX * REQUEST_MAX], *p = b;
	for (int i = 0; i < depth; i++) {
		struct request *r = c->batch[i] = &requests[sequence[place]];
		if (++place == entries)
			place = 0;
		p = mempcpy(p, r->bytes, r->length);
	}
	c->asked = depth;
	c->answered = 0;
	if (send(c->fd, b, p - b, MSG_NOSIGNAL) != p - b)
		count.broken++;
}

/* field finds a header field of a head that ends in a zero, or returns 0. */
static const char *field(const char *head, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = head; (p = strchr(p, '\n')) && *++p;)
		if (!strncasecmp(p, name, n) && p[n] == ':')
			return p + n + 1;
	return 0;
}

/* take consumes what is in head: the head of a reply and as much of bodies as is
   there. Returns 0 if the connection is of no more use. */
static int take(struct connection *c)
{
	while (c->have) {
		if (c->body < 0) {
			c->head[c->have] = 0;
			char *end = memmem(c->head, c->have, "\r\n\r\n", 4);
			if (!end && c->have < HEAD_MAX)
				return 1;
			if (!end || c->answered == c->asked || memcmp(c->head, "HTTP/1.", 7)) {
				count.bad_head++;
				return 0;
			}
			end[2] = 0;
			const char *length = field(c->head, "content-length");
			count.bad_status += atoi(c->head + 9) != 200;
			c->body = length ? atol(length) : 0;
			long expected = c->batch[c->answered]->expected;
			count.bad_length += expected < 0 ? c->body < -expected : c->body != expected;
			int n = end + 4 - c->head;
			memmove(c->head, c->head + n, c->have -= n);
		}
		int n = c->body < c->have ? c->body : c->have;
		memmove(c->head, c->head + n, c->have -= n);
		c->body -= n;
		if (c->body > 0)
			return 1;
		c->body = -1;
		c->answered++;
		count.requests++;
	}
	return 1;
}

/* drain receives until the socket is empty: fewer bytes than asked for. */
static void drain(struct connection *c, int hung_up)
{
	for (;;) {
		long want = HEAD_MAX - c->have, n;
		if (c->body > 0) { /* and so nothing is in head */
			want = c->body < (long)sizeof scratch ? c->body : (long)sizeof scratch;
			n = recv(c->fd, scratch, want, MSG_TRUNC);
		} else {
			n = recv(c->fd, c->head + c->have, want, 0);
		}
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			if (!single || n < 0 || c->answered != c->asked)
				c->asked == c->answered && n == 0 ? count.reconnects++ : count.broken++;
			again(c);
			return;
		}
		count.bytes += n;
		if (c->body > 0) {
			if ((c->body -= n) == 0) {
				c->body = -1;
				c->answered++;
				count.requests++;
			}
		} else {
			c->have += n;
			if (!take(c)) {
				again(c);
				return;
			}
		}
		if (c->asked == c->answered && !c->seen)
			seen += c->seen = 1;
		if (c->asked == c->answered && !single && !idle)
			ask(c);
		if (n < want && !hung_up)
			return;
	}
}

int main(int argc, char **argv)
{
	int connections = 64, option;
	double seconds = 1;
	while ((option = getopt(argc, argv, "c:d:p:1ris")) != -1) {
		switch (option) {
		case 'c': connections = atoi(optarg); break;
		case 'd': seconds = atof(optarg); break;
		case 'p': depth = atoi(optarg); break;
		case '1': single = 1; break;
		case 'r': raw = 1; break;
		case 'i': idle = 1; break;
		case 's': steady = 1; break;
		default: return 1;
		}
	}
	if (argc - optind != 2 || connections < 1 || depth < 1 || depth > DEPTH_MAX || (single && (depth > 1 || raw || idle)) || (idle && steady)) {
		fprintf(stderr, "usage: light [-c connections] [-d seconds] [-p depth] [-1] [-r] [-i | -s] PORT LIST\n");
		return 1;
	}
	server.sin_port = htons(atoi(argv[optind]));
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	read_list(argv[optind + 1], atoi(argv[optind]));
	ep = epoll_create1(0);
	struct connection *all = calloc(connections, sizeof *all);
	int ready = !idle && !steady;
	double begun = now(), end = begun + (ready ? seconds : 60), t = begun;
	for (int i = 0; i < connections; i++)
		open_connection(&all[i]);
	while (t < end) {
		static struct epoll_event events[EVENTS];
		int n = epoll_wait(ep, events, EVENTS, 1 + (int)((end - t) * 1000));
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;
			unsigned e = events[i].events;
			if (e & EPOLLERR) {
				count.broken++;
				again(c);
			} else if (!c->connected) {
				if (e & EPOLLOUT) {
					c->connected = 1;
					ask(c);
				}
			} else if (e & (EPOLLIN | EPOLLRDHUP)) {
				drain(c, e & EPOLLRDHUP);
			}
		}
		t = now();
		if (!ready && seen == connections) {
			ready = 1;
			puts("ready");
			fflush(stdout);
			memset(&count, 0, sizeof count);
			begun = t;
			end = t + seconds;
		}
	}
	printf("{\"requests\": %lu, \"seconds\": %.6f, \"bytes\": %lu, \"connects\": %lu, \"reconnects\": %lu, "
	       "\"bad_status\": %lu, \"bad_length\": %lu, \"bad_head\": %lu, \"broken\": %lu}\n",
		count.requests, t - begun, count.bytes, count.connects, count.reconnects,
		count.bad_status, count.bad_length, count.bad_head, count.broken);
	if (steady) {
		fflush(stdout);
		pause();
	}
}
