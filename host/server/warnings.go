package server

import (
	"fmt"
	"strings"
	"time"

	"assay/host/auditlog"
	"assay/host/internal/terminal"
	"assay/host/web/admin"
	"assay/host/web/operator"
)

// The thresholds of the page's warnings.
const (
	lateEvents     = time.Minute        // a webhook event that waits to be claimed
	lateGraph      = time.Minute        // a check that waits to be applied to the reputation graph
	lateReview     = 7 * 24 * time.Hour // a customer's request for a review
	lateCheckpoint = 3 * jobInterval    // records without a checkpoint; one is signed at each interval
	forwardedFor   = 24 * time.Hour     // how long an untrusted proxy is remembered
)

// warn adds what the operator should know, the worst first.
func (o *observer) warn(s *operator.State, r reading, audited auditlog.Status) {
	for _, p := range o.obstacles() {
		s.NotReady = append(s.NotReady, operator.Warning{Severity: operator.Problem,
			What: terminal.FirstLine(sentence(p.Error().Error())), Do: p.remedy})
	}
	add := func(severity operator.Severity, what, do string) {
		s.Warnings = append(s.Warnings, operator.Warning{Severity: severity, What: what, Do: do})
	}
	o.problems(func(problem, remedy string) { add(operator.Problem, sentence(problem), remedy) })
	for _, h := range s.Hosts {
		switch {
		case h.This:
		case h.Silent:
			add(operator.Problem, fmt.Sprintf("Host %s is silent for %v", h.Name, h.Seen.Round(time.Second)),
				"If it was not killed, check its log and its connection to the database. A killed host is removed "+
					"from the list after an hour.")
		case h.Refused > 0:
			add(operator.Problem, fmt.Sprintf("Host %s refused activation %d and runs %d", h.Name, h.Refused,
				h.Activation), "The table of hosts says why. `assay lineup rollback` restores the previous lineup.")
		}
	}
	o.warnOfQueues(s, add)
	o.warnOfAudit(s, audited, add)
	o.warnOfSettings(r, add)
}

// adding adds a warning.
type adding func(severity operator.Severity, what, do string)

func (o *observer) warnOfQueues(s *operator.State, add adding) {
	if s.Queues.Wait > s.Queues.Target {
		add(operator.Problem, "Checks are refused, because this host is busy",
			"Run more hosts, or this one on more processors. `assay_refusals_total` counts the refused checks.")
	}
	if s.Queues.Graph.Oldest > lateGraph {
		add(operator.Problem, fmt.Sprintf("The reputation graph is %v behind",
			s.Queues.Graph.Oldest.Round(time.Second)), "Checks do not see later records yet. Look in the hosts' "+
			"logs for \"the reputation graph is late\", which names the cause.")
	}
	if w := s.Queues.Webhooks; w.Due > 0 && w.Late > lateEvents {
		add(operator.Problem, fmt.Sprintf("Webhook events have waited for %v", w.Late.Round(time.Second)),
			"The hosts' logs say why they do not send them. Slow receivers delay only their own events.")
	}
	if r := s.Queues.Reviews; r.Oldest > lateReview {
		add(operator.Problem, fmt.Sprintf("Reviews have waited for %d days", r.Oldest/(24*time.Hour)),
			"Settle them at `/operator/reviews`: people who contest a verdict can expect an answer within a month.")
	}
}

func (o *observer) warnOfAudit(s *operator.State, audited auditlog.Status, add adding) {
	const verify = "Change nothing in the database: it is evidence. `assay audit verify` names the records."
	var unsigned []string
	for _, c := range s.Audit.Chains {
		if c.Damage != "" {
			add(operator.Problem, fmt.Sprintf("Audit chain %d is damaged: %s", c.Number, c.Damage), verify)
			continue
		}
		since := c.SignAt
		if since.IsZero() {
			since = o.began
		}
		if c.Records > c.Signed && s.At.Sub(since) > lateCheckpoint {
			unsigned = append(unsigned, fmt.Sprint(c.Number))
		}
	}
	for _, problem := range audited.Problems {
		add(operator.Problem, "The audit log was not signed or pruned: "+terminal.FirstLine(problem),
			"If this concerns records, they are evidence: change nothing, and run `assay audit verify`. Otherwise "+
				"see the host's log.")
	}
	if len(unsigned) > 0 {
		add(operator.Problem, fmt.Sprintf("This host has signed no checkpoint of audit chain %[2]s for %[1]d minutes",
			int(lateCheckpoint.Minutes()), strings.Join(unsigned, ", ")),
			"The host's log says why. Make sure that `"+o.cfg.Path("checkpoints")+"` is writable.")
	}
}

func (o *observer) warnOfSettings(r reading, add adding) {
	public := !admin.IsLoopback(o.address)
	if public && o.cfg.TLSCert == "" && !strings.HasPrefix(o.cfg.URL, "https://") {
		add(operator.Caution, "Customers reach this host without TLS", "API keys cross the network in plain text. "+
			"Set `ASSAY_TLS_CERT` and `ASSAY_TLS_KEY`, or put a proxy with TLS in front of it and set `ASSAY_URL` to "+
			"the proxy’s URL.")
	}
	const trust = "With a proxy, all clients without a key share one limit, and so do those who sign in. Name the " +
		"proxy’s network in `ASSAY_TRUSTED_PROXIES`."
	switch at := o.forwarded(); {
	case !at.IsZero() && time.Since(at) < forwardedFor:
		add(operator.Caution, "Requests arrive through a proxy that is not trusted", "They have X-Forwarded-For or "+
			"Forwarded and come from a private address. "+trust+" Assay reads X-Forwarded-For.")
	case public && len(o.cfg.TrustedProxies) == 0:
		add(operator.Advice, fmt.Sprintf("This host listens on %s, and no proxy is trusted", o.address),
			"This is right without a proxy. "+trust)
	}
	if r.unknown[operator.Lists] == "" && r.imported == 0 {
		add(operator.Advice, "No list is subscribed", "Lists of known bad and known good entities improve decisions, "+
			"and none is fetched by itself: `assay feeds recommend` names public ones.")
	}
	if o.signs {
		add(operator.Advice, "This host can read the operator’s key", "Somebody who takes over the host can "+
			"then change the lineup. Move `"+o.cfg.OperatorKeyPath()+"` to the machine where lineups are changed, and "+
			"keep a copy offline.")
	}
	if o.testing {
		level := operator.Advice
		if o.cfg.DatabaseURL != "" { // customers may take it for real
			level = operator.Caution
		}
		add(level, "Test mode: the test checkout is in force", "Anybody can subscribe with a test card, and nobody "+
			"pays. Set `ASSAY_STRIPE_KEY` and `ASSAY_STRIPE_WEBHOOK_SECRET`, and remove `ASSAY_TEST_CHECKOUT`.")
	}
}
