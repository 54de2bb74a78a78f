// Package web99 holds the wire facts of the benchmark's dynamic pages: how requests, tables, cookies,
// the post log and the page wrapper are written and read, byte by byte, in both directions. The pages
// build what the driver checks, and both rely on this one statement of the facts; they share no data.
//
// Start with Tables (what the ad rotation is computed from) and ParseHead (where a page's file content
// begins). docs/formats/post-log.md describes the same formats for people and says which widths are our
// own fit.
//
// The package reads no file and no clock, generates no table, and knows nothing of HTTP.
package web99

// Default routes of the operations.
const (
	RouteGet     = "/web99/get"     // standard dynamic GET
	RouteCGI     = "/web99/cgi"     // the same, one process per request
	RouteCAD     = "/web99/cad"     // GET with custom ad rotation
	RoutePost    = "/web99/post"    // POST
	RouteCommand = "/web99/command" // Reset and Fetch
)

// Names of the shared files, below the document root.
const (
	PersonalityName = "User.Personality"
	AdsName         = "Custom.Ads"
	PostLogName     = "post.log"
)

const (
	// Title is the title of every page.
	Title = "web99 Dynamic GET & POST Test"
	// UserOffset is added to a user's index in every cookie and in the post log.
	UserOffset = 10000
	// Ads is the number of ads in rotation.
	Ads = 360
	// MaxUsers is the largest number of users whose index fits the table's five columns.
	MaxUsers = 100000
)
