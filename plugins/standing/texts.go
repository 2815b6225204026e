package main

// text is a kind of signal. "%" is replaced by evidence.
type text struct {
	code  string
	own   string // about the entity itself
	above string // about its domain, whose name is the first piece of evidence; "" if there is no such text
}

// The texts of the layer.
var (
	known = text{"standing:customers:known", "Known to at least % customers, for % days, never blocked", ""}
	often = text{"standing:customers:known", "Known to at least % customers, for % days, rarely blocked", ""}

	good           = text{"standing:list:good", "Listed as good by %", ""}
	goodAbove      = text{"standing:list:good", "A domain above it is listed as good by %", ""}
	goodMailDomain = text{"standing:list:good", "The mail domain is listed as good by %", ""}

	popular = text{"standing:rank:popular", "On the % list of popular sites (rank %)",
		"% is on the % list of popular sites (rank %)"}
	since   = text{"standing:registration:old", "Registered since %", "% has been registered since %"}
	years   = text{"standing:registration:old", "Registered for % years", "% has been registered for % years"}
	changed = text{"standing:registration:old", "Registered since %, but changed % days ago",
		"% has been registered since %, but changed % days ago"}
	same = text{"standing:registration:unchanged", "Name servers and registrar unchanged for % days",
		"%: name servers and registrar unchanged for % days"}
	protected = text{"standing:mail:protected", "Has forged mail refused (DMARC reject, SPF)",
		"% has forged mail refused (DMARC reject, SPF)"}
	inUse = text{"standing:bank:known", "Bank code “%” belongs to a bank of %", ""}
)
