/* What of a file set is in the page cache.

   cached drop DIR   throws its files out of the page cache
   cached fill DIR   reads them all

   Both print one line of JSON: files, bytes, and how many of the bytes are cached now. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int drop, failed;
static long files, bytes, cached;

static long resident(int fd, long size)
{
	static unsigned char pages[1 << 16];
	long page = sysconf(_SC_PAGESIZE), sum = 0;
	for (long at = 0; at < size; at += page * (long)sizeof pages) {
		long n = size - at < page * (long)sizeof pages ? size - at : page * (long)sizeof pages;
		void *p = mmap(0, n, PROT_READ, MAP_SHARED, fd, at);
		if (p == MAP_FAILED || mincore(p, n, pages) < 0) {
			failed = 1;
			return sum;
		}
		for (long i = 0; i < (n + page - 1) / page; i++)
			if (pages[i] & 1)
				sum += n - i * page < page ? n - i * page : page;
		munmap(p, n);
	}
	return sum;
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *f)
{
	static char b[1 << 20];
	(void)f;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return failed = 1;
	if (drop) {
		fdatasync(fd); /* what is dirty cannot be dropped */
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	} else {
		while (read(fd, b, sizeof b) > 0)
			;
	}
	files++;
	bytes += st->st_size;
	if (st->st_size)
		cached += resident(fd, st->st_size);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[1], "drop") && strcmp(argv[1], "fill"))) {
		fprintf(stderr, "usage: cached drop|fill DIR\n");
		return 1;
	}
	drop = !strcmp(argv[1], "drop");
	if (nftw(argv[2], visit, 64, FTW_PHYS) || failed) {
		perror(argv[2]);
		return 1;
	}
	printf("{\"files\": %ld, \"bytes\": %ld, \"cached\": %ld}\n", files, bytes, cached);
}
