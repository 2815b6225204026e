package main

// text is a kind of signal. "%" is replaced by evidence.
type text struct {
	code  string
	own   string // about the entity itself
	above string // about its domain, whose name is the first piece of evidence; "" if there is no such text
}

// The texts of the layer.
var (
	known = text{signalCustomersKnown, "Known to at least % customers, for % days, never blocked", ""}
	often = text{signalCustomersKnown, "Known to at least % customers, for % days, rarely blocked", ""}

	good           = text{signalListGood, "Listed as good by %", ""}
	goodAbove      = text{signalListGood, "A domain above it is listed as good by %", ""}
	goodMailDomain = text{signalListGood, "The mail domain is listed as good by %", ""}

	popular = text{signalRankPopular, "On the % list of popular sites (rank %)",
		"% is on the % list of popular sites (rank %)"}
	since   = text{signalRegistrationOld, "Registered since %", "% has been registered since %"}
	years   = text{signalRegistrationOld, "Registered for % years", "% has been registered for % years"}
	changed = text{signalRegistrationOld, "Registered since %, but changed % days ago",
		"% has been registered since %, but changed % days ago"}
	same = text{signalRegistrationUnchanged, "Name servers and registrar unchanged for % days",
		"%: name servers and registrar unchanged for % days"}
	protected = text{signalMailProtected, "Has forged mail refused (DMARC reject, SPF)",
		"% has forged mail refused (DMARC reject, SPF)"}
	inUse = text{signalBankKnown, "Bank code “%” belongs to a bank of %", ""}
)
