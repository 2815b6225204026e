package main

import "strings"

// company is a company that reported domains use more often than domains in general, with its points. Points are
// proportional to the log of the ratio of the two shares, smoothed for small counts and capped, because the shares
// among all domains are rough and the reports come from few sources. Clouds that rent by the hour are left out, because
// anyone can use them.
type company struct {
	name   string
	points int
}

var (
	// registrars are named by the start of their name, reduced to lower-case letters and digits.
	registrars = [...]company{
		{"dynadot", 6}, {"gname", 6}, {"namesilo", 6}, {"globaldomaingroup", 6}, {"nicenic", 5}, {"namemart", 4},
		{"namesrs", 3}, {"sav", 3}, {"ownregistrar", 3}, {"namecom", 3}, {"aceville", 3}, {"realtimeregister", 2},
		{"julyname", 2},
	}
	// nameServers are named by their registrable domain. Most are the defaults of the registrars above.
	nameServers = [...]company{
		{"share-dns.net", 5}, {"share-dns.com", 5}, {"dyna-ns.net", 5}, {"dnsowl.com", 4}, {"julydns.com", 4},
		{"alidns.com", 4}, {"loominost.com", 2}, {"dnspod.com", 2},
	}
	// systems are named by the number of the autonomous system.
	systems = [...]company{
		{"AS132203", 6}, {"AS212913", 5}, {"AS205759", 5}, {"AS21859", 4}, {"AS36002", 3}, {"AS138995", 3},
		{"AS202412", 3}, {"AS62214", 2},
	}
	// parkers serve domains that are for sale or only show advertisements.
	parkers = [...]string{
		"sedoparking.com", "bodis.com", "parkingcrew.net", "above.com", "abovedomains.com", "parklogic.com", "dan.com",
		"undeveloped.com", "afternic.com", "uniregistrymarket.link", "cashparking.com", "ibspark.com",
		"namebrightdns.com", "hugedomains.com", "ztomy.com", "skenzo.com", "voodoo.com", "rookdns.com", "fabulous.com",
		"parkingpage.com", "domainparkingserver.net", "smartname.com",
	}
	// suspenders serve domains that their registrar took down.
	suspenders = [...]string{"suspended-domain.com"}
)

// points returns the points of a company, or 0 if the list lacks it.
func points(list []company, name string) int {
	for i := range list {
		if list[i].name == name {
			return list[i].points
		}
	}
	return 0
}

// leading returns the number that s starts with, or 0.
func leading(s string) int {
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1e8; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// registrarPoints returns the points of a registrar by the start of its name.
func registrarPoints(name string) int {
	var buf [20]byte // more than the longest start
	plain := buf[:0]
	for i := 0; i < len(name) && len(plain) < len(buf); i++ {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			plain = append(plain, c)
		}
	}
	for i := range registrars {
		if start := registrars[i].name; len(start) <= len(plain) && string(plain[:len(start)]) == start {
			return registrars[i].points
		}
	}
	return 0
}

// owner returns the last two labels of a name server, which approximate its registrable domain.
func owner(host string) string {
	last := strings.LastIndexByte(host, '.')
	if last <= 0 {
		return host
	}
	return host[strings.LastIndexByte(host[:last], '.')+1:]
}

// served returns the owner of the first of hosts, separated by spaces, that is in list, or "".
func served(list []string, hosts string) string {
	for hosts != "" {
		var host string
		host, hosts = cutWord(hosts)
		host = owner(host)
		for i := range list {
			if list[i] == host {
				return host
			}
		}
	}
	return ""
}

// cutWord returns the first of words, which are separated by spaces, and the others.
func cutWord(words string) (word, rest string) {
	if i := strings.IndexByte(words, ' '); i >= 0 {
		return words[:i], words[i+1:]
	}
	return words, ""
}

// countWords returns the number of words, which are separated by spaces.
func countWords(words string) (n int) {
	for ; words != ""; n++ {
		_, words = cutWord(words)
	}
	return n
}
