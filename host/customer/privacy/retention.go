package privacy

// How long data is kept (contract section 8). The privacy page shows these numbers.
const (
	AuditMonths  = 12 // audit records
	PayloadHours = 72 // the payload of a failed event, from its check
	EventDays    = 30 // the rest of an event, from its delivery or failure
	GraphDays    = 90 // contributions to the reputation graph
	LogDays      = 30 // request logs
)
