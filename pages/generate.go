package pages

import (
	"fmt"
	"os"
	"path/filepath"

	"tidemark.dev/internal/model/web99"
)

// The law of the tables. The original's generators are not known; only the record layouts and one sample
// ad are. What follows is ours, chosen so that rotation walks a few ads, some ads can never match (as in
// the sample, whose weights sum to 38 under a minimum of 75), and some have expired:
//
//   - users: one for each unit of maxload, at least 100, at most 100,000 (the width of the index); a driver
//     that wants more users than connections asks for a larger maxload;
//   - a user has one gender, one age, one region, one to three bits of each interest;
//   - an ad addresses one or two genders, any non-empty set of ages and of regions, and one to four bits
//     of each interest; its five weights are uniform in 0..15;
//   - min_match is uniform in 1..1+5/4 of the sum of the weights, so a fifth of the ads never match;
//   - expiry is uniform from A days before pttime to B days after it, for exp=A,B.
//
// The draws are a pure function of maxload, pttime, A, B and the site's seed.
const (
	minUsers     = 100
	maxExpiryDay = 36500
)

// Users is the number of users that a Reset with maxload makes.
func Users(maxLoad int64) int {
	return int(min(max(maxLoad, minUsers), web99.MaxUsers))
}

// random is splitmix64.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is uniform in 0..n-1, for n far below 2^32.
func (r *random) below(n uint64) uint64 { return r.next() >> 32 * n >> 32 }

// set is a random set of 1 to limit bits (some may coincide) out of width.
func (r *random) set(width, limit uint64) (bits uint32) {
	for range 1 + r.below(limit) {
		bits |= 1 << r.below(width)
	}
	return bits
}

// Places of the groups' lowest bits in the demographic word.
const (
	genderBit, genders     = 28, 2
	ageBit, ages           = 24, 4
	regionBit, regions     = 20, 4
	interest1Bit, interest = 10, 10
	interest2Bit           = 0
)

func generateUsers(r random, count int) ([]byte, error) {
	b := make([]byte, 0, count*web99.UserSize)
	for i := range count {
		word := r.set(genders, 1)<<genderBit | r.set(ages, 1)<<ageBit | r.set(regions, 1)<<regionBit |
			r.set(interest, 3)<<interest1Bit | r.set(interest, 3)<<interest2Bit
		var ok bool
		if b, ok = web99.AppendUser(b, web99.User{Index: int32(i), Demographics: word}); !ok {
			return nil, fmt.Errorf("user %d does not fit its record", i)
		}
	}
	return b, nil
}

func generateAds(r random, c *web99.Reset) ([]byte, error) {
	const day = 24 * 60 * 60
	first, last := c.PointTime-c.ExpA*day, c.PointTime+c.ExpB*day
	b := make([]byte, 0, web99.Ads*web99.AdSize)
	for i := range web99.Ads {
		ad := web99.Ad{
			ID: int32(i),
			Demographics: r.set(genders, 2)<<genderBit | r.set(ages, ages)<<ageBit | r.set(regions, regions)<<regionBit |
				r.set(interest, 4)<<interest1Bit | r.set(interest, 4)<<interest2Bit,
		}
		var sum uint64
		for shift := 0; shift <= web99.GenderShift; shift += 4 {
			weight := r.below(16)
			ad.Weights |= uint32(weight) << shift
			sum += weight
		}
		ad.MinMatch = int32(1 + r.below(1+sum*5/4))
		ad.Expiry = first + int64(r.next()>>1%uint64(last-first+1))
		ad.Expiry = min(max(ad.Expiry, 0), 9_999_999_999)
		var ok bool
		if b, ok = web99.AppendAd(b, &ad); !ok {
			return nil, fmt.Errorf("ad %d does not fit its record", i)
		}
	}
	return b, nil
}

// reset makes new tables, puts them in place and empties the post log, all under the log's lock, so that
// Resets do not mix and no POST sees half of one. Blocks.
func (s *Site) reset(c *web99.Reset) error {
	if c.ExpA > maxExpiryDay || c.ExpB > maxExpiryDay || c.PointTime > 9_999_999_999 {
		return fmt.Errorf("exp=%d,%d with pttime=%d is out of range", c.ExpA, c.ExpB, c.PointTime)
	}
	seed := random(s.seed)
	for _, v := range []int64{c.MaxLoad, c.PointTime, c.ExpA, c.ExpB} {
		seed = random(seed.next() ^ uint64(v))
	}
	users, err := generateUsers(random(seed.next()), Users(c.MaxLoad))
	if err != nil {
		return err
	}
	ads, err := generateAds(random(seed.next()), c)
	if err != nil {
		return err
	}
	if err := s.log.reset(func() error {
		// The personality file last: its identity says that both are new.
		if err := replace(s.dir, web99.AdsName, ads); err != nil {
			return err
		}
		return replace(s.dir, web99.PersonalityName, users)
	}); err != nil {
		return err
	}
	_, err = s.tables.look()
	return err
}

// replace writes a file beside name and renames it into place.
func replace(dir, name string, content []byte) error {
	f, err := os.CreateTemp(dir, "."+name+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
