package main

import "strings"

// machines are what honest owners put left of their domains.
var machines = strings.Fields(`mail blog shop docs m app en news api support login my static cdn dev forum de help store
	webmail accounts auth secure portal status admin img media www2 fr es it old beta test ftp smtp mx wiki git jobs careers
	events community email go get web online info data cloud vpn remote calendar drive id pay account sso assets download`)

// oneIn says of how many good rows of the pool one is lent a machine's name.
const oneIn = 12

// lend appends copies of good pool rows with a machine's name on their left. Lists of honest sites name domains only,
// lists of reported ones name hosts: without this, anything left of a domain would count as a reason. Copies are never
// tested, and a row of the pool is in no test.
func lend(rows []row) []row {
	for i := range rows {
		r := rows[i]
		h := hash(r.site)
		if r.target || r.bad || r.address.Left != "" || r.address.Hosted || h%oneIn != 0 {
			continue
		}
		r.address.Left = machines[h/oneIn%uint64(len(machines))]
		r.read()
		rows = append(rows, r)
	}
	return rows
}
