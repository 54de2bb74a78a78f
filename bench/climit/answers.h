/* What the two C limits have in common: ready answers in memory, found by the
   digits of the path, and a listener. They mark what the kernel allows, so they do
   nothing else: no header is read but a final "Connection: close", nothing is logged,
   no connection times out, and a request must arrive whole and alone. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES = 4, NUMBERS = 9, MAX_DIRS = 1000, MAX_CONNECTIONS = 1 << 16, REQUEST_MAX = 2048 };

struct answer {
	const char *bytes;
	size_t length;
};

static struct answer answers[MAX_DIRS * CLASSES * NUMBERS];
static int dirs;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* One answer: the header other servers send, so that lengths compare, and the file. */
static struct answer load(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	char *b = mmap(0, st.st_size + 512, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (b == MAP_FAILED)
		die("mmap");
	int head = sprintf(b,
		"HTTP/1.1 200 OK\r\nServer: limit\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
		"Content-Type: text/html\r\nContent-Length: %ld\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
		"ETag: \"2ea6b1f1-00000000\"\r\nAccept-Ranges: bytes\r\n\r\n",
		(long)st.st_size);
	for (off_t done = 0; done < st.st_size;) {
		ssize_t n = read(fd, b + head + done, st.st_size - done);
		if (n <= 0)
			die(path);
		done += n;
	}
	close(fd);
	return (struct answer){b, head + st.st_size};
}

static void load_all(const char *root)
{
	for (int i = 0; i < dirs * CLASSES * NUMBERS; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/file_set/dir%05d/class%d_%d", root,
			i / (CLASSES * NUMBERS), i / NUMBERS % CLASSES, i % NUMBERS);
		answers[i] = load(path);
	}
}

/* "GET /file_set/dirNNNNN/classC_F HTTP/1.1": every path has the same length, so the
   digits stand in fixed places. Returns 0 for any other request. */
static const struct answer *answer_to(const char *b, long n)
{
	if (n < 44 || memcmp(b, "GET /file_set/dir", 17) || memcmp(b + n - 4, "\r\n\r\n", 4))
		return 0;
	unsigned dir = 0, class = b[28] - '0', number = b[30] - '0';
	for (int i = 17; i < 22; i++)
		dir = dir * 10 + (b[i] - '0');
	if (dir >= (unsigned)dirs || class >= CLASSES || number >= NUMBERS)
		return 0;
	return &answers[(dir * CLASSES + class) * NUMBERS + number];
}

static int says_close(const char *b, long n) { return !memcmp(b + n - 9, "close\r\n\r\n", 9); }

static const char *usage = "limit-epoll PORT ROOT DIRECTORIES";

/* start reads the arguments PORT ROOT DIRECTORIES and returns a listening socket. */
static int start(int argc, char **argv, int flags)
{
	if (argc != 3 || (dirs = atoi(argv[2])) < 1 || dirs > MAX_DIRS) {
		fprintf(stderr, "usage: %s\n", usage);
		exit(1);
	}
	load_all(argv[1]);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | flags, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[0])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* accepted sockets inherit it */
	if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 4096) < 0)
		die("listen");
	return fd;
}
