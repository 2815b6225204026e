package console

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
)

// Store is the storage that the pages need.
type Store interface {
	// These sign customers in, keep their sessions, and limit how often clients may try.

	// SignInByCode begins a session of the account of a sign-in code. Errors: signin.ErrMistyped, ErrUnknown.
	SignInByCode(ctx context.Context, presented string, from signin.Origin) (token string, err error)
	// UseLink uses up a sign-in link and begins a session of its account. Error: signin.ErrUnknown.
	UseLink(ctx context.Context, link string, from signin.Origin) (token string, err error)

	// FirstCode issues the code of a new account, in place of one that nobody has used. It returns "" if the code was
	// used.
	FirstCode(ctx context.Context, account string) (code string, err error)
	// ReplaceCode issues another code. The previous code no longer signs in, and all links and other sessions end.
	ReplaceCode(ctx context.Context, account, session string) (code string, err error)
	// ProveSession records that the code of the account was presented in a session. Errors: signin.ErrMistyped,
	// ErrUnknown.
	ProveSession(ctx context.Context, account, id, presented string) error
	// CodeIssuedAt returns when the account's code was issued, or the zero time if it has none.
	CodeIssuedAt(ctx context.Context, account string) (time.Time, error)

	// OwnerAddress returns the confirmed e-mail address of the account's owner, or "".
	OwnerAddress(ctx context.Context, account string) (string, error)
	// NewAddressLink returns the token of a link that confirms the address of the account's owner.
	NewAddressLink(ctx context.Context, account, address string) (token string, err error)
	// ConfirmAddress uses up such a link, stores its address, and returns the previous address, or "". Error:
	// signin.ErrUnknown.
	ConfirmAddress(ctx context.Context, account, token string) (former string, err error)
	// RemoveAddress deletes the address, or the recovery address, and returns it.
	RemoveAddress(ctx context.Context, account string, recovery bool) (former string, err error)
	// OwnersOf returns the accounts that sign in with an address, by the address in the confirmed spelling.
	OwnersOf(ctx context.Context, address string) (map[string][]string, error)
	// NewLink returns the token of a link that signs in.
	NewLink(ctx context.Context, account string) (token string, err error)

	// RecoveryAddress returns the recovery address of the account and when it begins to sign in, or "".
	RecoveryAddress(ctx context.Context, account string) (address string, usableAt time.Time, err error)
	// NewRecoveryLink returns the token of a link that makes an address the recovery address.
	NewRecoveryLink(ctx context.Context, account, address string) (token string, err error)
	// ConfirmRecovery uses up such a link and returns its account. Error: signin.ErrUnknown.
	ConfirmRecovery(ctx context.Context, token string) (account string, err error)
	// CustomersOf returns the payment provider's ids of the account, newest first, and AccountsOfCustomers the reverse.
	CustomersOf(ctx context.Context, account string) ([]string, error)
	AccountsOfCustomers(ctx context.Context, customers []string) ([]string, error)

	BeginSession(ctx context.Context, account string, from signin.Origin) (token string, err error)
	// Session returns the session of a token, and the caller as whom the dashboard acts: its key is "" if no key of the
	// account works. Error: signin.ErrNoSession.
	Session(ctx context.Context, token, network string) (signin.Session, check.Caller, error)
	// Sessions lists an account's sessions, the last used first.
	Sessions(ctx context.Context, account string) ([]signin.Session, error)
	// EndSession ends a session of an account at once. Error: signin.ErrNoSession.
	EndSession(ctx context.Context, account, id string) error
	// EndOtherSessions ends all sessions of an account except one.
	EndOtherSessions(ctx context.Context, account, except string) error

	// Take counts a client's use of an action that is limited to limit uses in a sliding window. If the client has
	// reached the limit, ok is false and resetAt is when the next use is possible.
	Take(ctx context.Context, action string, client netip.Prefix, limit int, window time.Duration) (
		resetAt time.Time, ok bool, err error)
	// TakeCounted is like Take, and returns the number of uses in the window, this one included; 0 if the client has
	// reached the limit.
	TakeCounted(ctx context.Context, action string, client netip.Prefix, limit int, window time.Duration) (
		uses int, resetAt time.Time, err error)

	// CheckoutPlan returns the plan of an open checkout of the built-in test checkout. Errors: billing.ErrNoCheckout,
	// or billing.ErrSubscribed if the account has got a subscription meanwhile.
	CheckoutPlan(ctx context.Context, id string) (plan string, err error)

	// These report an account's plan and checks.

	Usage(ctx context.Context, account string) (billing.Usage, error)
	// CountDays is CountChecks of decision.Source, but may still count checks of past days that were just erased.
	CountDays(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error)
	CountHours(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error)
	// MonthlyUsage returns the account's usage in the month that begins at the given instant.
	MonthlyUsage(ctx context.Context, c check.Caller, month time.Time) (*decision.Usage, error)
	// Subscription returns the account's paid subscription. Error: billing.ErrNotPaid.
	Subscription(ctx context.Context, account string) (billing.Subscription, error)
	// Refunds returns the second subscriptions that the account paid for lately, newest first.
	Refunds(ctx context.Context, account string) ([]billing.Refund, error)

	// These manage the account's keys. Errors: apikey.ErrNotFound, ErrTooMany, ErrLast; billing.ErrSubscriptionEnded.

	Keys(ctx context.Context, account string) ([]apikey.Key, error)
	IssueKey(ctx context.Context, account string, wanted apikey.Wanted) (apikey.Issued, error)
	// RotateKey replaces a key, which keeps working during the overlap, by one with the same name and limits.
	RotateKey(ctx context.Context, account, id string, overlap time.Duration) (apikey.Issued, error)
	RevokeAccountKey(ctx context.Context, account, id string) error

	// These manage an account's webhook and its events. Errors: webhook.ErrNoEndpoint, ErrEndpointDisabled, ErrNoEvent,
	// ErrEventPending, ErrPayloadGone.

	// Endpoints returns the account's endpoint, or nothing.
	Endpoints(ctx context.Context, account string) ([]webhook.Endpoint, error)
	// SetEndpoint sets the endpoint with a new secret. Error: webhook.ErrPlanWithoutWebhooks.
	SetEndpoint(ctx context.Context, account, url string) (secret string, err error)
	// MoveEndpoint changes the endpoint's URL and keeps its secret.
	MoveEndpoint(ctx context.Context, account, url string) error
	RemoveEndpoint(ctx context.Context, account string) error
	EnableEndpoint(ctx context.Context, account string) error
	// RotateSecret creates a new secret, which begins to sign after a time, in place of the old one.
	RotateSecret(ctx context.Context, account string, switchIn time.Duration) (secret string, err error)
	// SwitchSecret lets the new secret sign from now on.
	SwitchSecret(ctx context.Context, account string) error

	// SendTestEvent sends a test event with the verdict review or block. Error: webhook.ErrTestVerdict.
	SendTestEvent(ctx context.Context, account string, verdict check.Verdict) (ref string, err error)
	// RecentEvents returns up to limit events, newest first: those in a state, unless it is empty, and with a sequence
	// number less than below, unless it is 0.
	RecentEvents(ctx context.Context, account, state string, below int64, limit int) ([]webhook.Event, error)
	// Attempts returns the attempts to deliver an event, oldest first.
	Attempts(ctx context.Context, account, ref string) ([]webhook.Attempt, error)
	ResendEvent(ctx context.Context, account, ref string) error
	// Notices returns the notices to owners about their endpoints; EndNotice removes one.
	Notices(ctx context.Context) ([]webhook.Notice, error)
	EndNotice(ctx context.Context, n webhook.Notice) error
	// ResendFailed resends the events that failed since a time. It returns how many were resent, and how many cannot be
	// because their content was deleted.
	ResendFailed(ctx context.Context, account string, since time.Time) (resent, gone int, err error)

	// These keep the verdicts that an account sets in advance. Errors: *entity.InvalidError, override.TooManyError,
	// override.ErrUnknown, check.ErrUnauthorized.

	// Overrides lists an account's overrides, newest first.
	Overrides(ctx context.Context, account string) ([]override.Listed, error)
	AddOverride(ctx context.Context, caller check.Caller, wanted override.Wanted) (*override.Listed, error)
	RemoveOverride(ctx context.Context, caller check.Caller, id string) error

	// These read the account's recorded checks and request human reviews of them. Errors: feedback.ErrUnknownCheck,
	// *entity.InvalidError.

	decision.Source
	decision.Records
	// ReviewNotices returns the oldest settled review of each account that its owner has not been told about.
	// EndReviewNotice removes it from the list.
	ReviewNotices(ctx context.Context) ([]decision.Settled, error)
	EndReviewNotice(ctx context.Context, ref string) error
	// AskReview returns the review of a check. It asks for one if there is none.
	AskReview(ctx context.Context, c check.Caller, ref string, asking decision.Asking) (*privacy.Review, error)

	// These export and erase a person's data, in the background if there is much of it. Errors:
	// privacy.ErrUnknownSubject, privacy.LargeError, check.ErrUnauthorized, and privacy.ErrNoExport for a download.

	Export(ctx context.Context, caller check.Caller, subject privacy.Selector, page privacy.Page) (
		*privacy.Export, error)
	Erase(ctx context.Context, caller check.Caller, subject privacy.Selector) (*privacy.ErasureResult, error)
	Begin(ctx context.Context, caller check.Caller, kind privacy.Kind, subject privacy.Selector) (
		*privacy.Request, error)
	Requests(ctx context.Context, caller check.Caller) ([]*privacy.Request, error)
	Download(ctx context.Context, caller check.Caller, id, after string) (json.RawMessage, error)
}
