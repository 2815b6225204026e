package main

import "strings"

// What 4,461 reported domains have in common beyond their share of all domains: each nine times the log of how much
// larger the share among the reported is than among all, drawn towards one as if 30 more of each had been seen, and
// kept from 4 points on. The share among all is known roughly only, and the reports are from few sources, so no entry
// is worth more than 12, and clouds where anybody rents by the hour are left out.
const (
	// registrars, by the start of their names in lower case without anything but letters and digits.
	registrars = " dynadot:12 gname:12 namesilo:11 globaldomaingroup:11 nicenic:10 namemart:8 namesrs:6 sav:5 ownregistrar:5 namecom:5" +
		" aceville:5 realtimeregister:4 julyname:4 "
	// nameServers, by their registrable domain. Most are what such a registrar gives to those who choose none.
	nameServers = " share-dns.net:10 share-dns.com:10 dyna-ns.net:9 dnsowl.com:8 julydns.com:7 alidns.com:7 loominost.com:4 dnspod.com:4 "
	// systems are autonomous systems, by number.
	systems = " AS132203:11 AS212913:10 AS205759:10 AS21859:7 AS36002:6 AS138995:6 AS202412:5 AS62214:4 "
)

// parkers serve domains that are for sale or show nothing but advertisements, and hold the ones that were taken down.
const (
	parkers = " sedoparking.com bodis.com parkingcrew.net above.com abovedomains.com parklogic.com dan.com undeveloped.com afternic.com" +
		" uniregistrymarket.link cashparking.com ibspark.com namebrightdns.com hugedomains.com ztomy.com skenzo.com voodoo.com rookdns.com" +
		" fabulous.com parkingpage.com domainparkingserver.net smartname.com "
	suspenders = " suspended-domain.com "
)

// points returns what a list " name:points ... " gives to name, 0 when it is not in it.
func points(list, name string) int {
	if name == "" || strings.ContainsAny(name, ": ") {
		return 0
	}
	i := strings.Index(list, " "+name+":")
	if i < 0 {
		return 0
	}
	return leading(list[i+len(name)+2:])
}

// leading is the number that s begins with.
func leading(s string) int {
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1e8; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// registrarPoints returns the points of a registrar whose name begins like one of the list's.
func registrarPoints(name string) int {
	var plain []byte
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			plain = append(plain, c)
		}
	}
	for _, entry := range strings.Fields(registrars) {
		start, _, _ := strings.Cut(entry, ":")
		if strings.HasPrefix(string(plain), start) {
			return points(registrars, start)
		}
	}
	return 0
}

// owner is the registrable domain of a name server, near enough: its last two labels.
func owner(host string) string {
	last := strings.LastIndexByte(host, '.')
	if last <= 0 {
		return host
	}
	return host[strings.LastIndexByte(host[:last], '.')+1:]
}

// served returns the first of hosts, joined by blanks, whose owner list holds.
func served(list, hosts string) string {
	for _, host := range strings.Fields(hosts) {
		if o := owner(host); strings.Contains(list, " "+o+" ") {
			return o
		}
	}
	return ""
}
