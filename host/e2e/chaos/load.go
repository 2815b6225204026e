package chaos

import (
	"bytes"
	"context"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/host/entity"
	"assay/host/measure/bench"
)

// Load checks entities through several hosts, each call through any of them, and records the answers.
type Load struct {
	Clients []*Client
	// Repeat sends a call again, with its Idempotency-Key and to any of the hosts, until it is answered or refused for
	// good. So no outcome stays unknown.
	Repeat bool

	history *History
	hosts   int
	url     func(host int) string
	http    http.Client
	unique  atomic.Int64 // the number of entities so far
}

// NewLoad returns the load of clients on a number of hosts. url returns the URL of a host, which may be down.
func NewLoad(h *History, clients []*Client, hosts int, url func(host int) string) *Load {
	return &Load{Clients: clients, history: h, hosts: hosts, url: url,
		http: http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// Client is an account and its current key.
type Client struct {
	Account string
	Batches bool // the plan has batches

	mu         sync.Mutex
	id, secret string
}

// SetKey sets the key for the next calls.
func (c *Client) SetKey(id, secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.secret = id, secret
}

// Key returns the key that SetKey has set.
func (c *Client) Key() (id, secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id, c.secret
}

// Popular entities are checked again and again, by all accounts.
const popular = 40

// patience is how long a client waits for an answer.
const patience = time.Minute

// repeatAfter is the pause before a call is sent again.
const repeatAfter = 20 * time.Millisecond

// Run makes calls with a number of workers, each of which pauses after a call, and for longer if it was
// refused, until ctx ends.
func (l *Load) Run(ctx context.Context, workers int, pause time.Duration) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				client := l.Clients[rand.IntN(len(l.Clients))]
				var items []Item
				switch n := rand.IntN(10); {
				case n == 0 && client.Batches: // of entities that are in no other call, see Check
					for range 1 + rand.IntN(20) {
						items = append(items, l.item(false))
					}
				default:
					items = []Item{l.item(n == 1)}
				}
				rest := pause
				if l.Check(ctx, client, items...).Status != http.StatusOK {
					rest *= 5
				}
				select {
				case <-time.After(rest):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// item returns an entity to check: a popular one, or one that was not checked before. One in four is blocked.
func (l *Load) item(known bool) Item {
	n := int(l.unique.Add(1)) + popular
	if known {
		n = rand.IntN(popular)
	}
	field, value := bench.Value(n)
	if n%8 == 0 || n%8 == 5 {
		field, value = "domain", fmt.Sprintf("paypa1-secure-login%d.xyz", n)
	}
	return NewItem(field, value)
}

// PopularItem returns one of the entities that are checked again and again.
func (l *Load) PopularItem() Item { return l.item(true) }

// NewItem returns a valid entity.
func NewItem(field, value string) Item {
	e, err := entity.Parse(entity.Type(field), value, "")
	if err != nil || e.Value != value {
		panic(fmt.Sprintf("%s %s is not a normalised entity: %v", field, value, err))
	}
	item := Item{Type: field, Value: value}
	for _, p := range e.Parents() {
		item.Parents = append(item.Parents, Node{p.Kind, p.Value})
	}
	return item
}

// Check makes a call to any of the hosts, a batch if there are several items, and adds it to the history.
func (l *Load) Check(ctx context.Context, client *Client, items ...Item) *Call {
	id, secret := client.Key()
	c := &Call{Account: client.Account, Key: id, Host: rand.IntN(l.hosts), Items: items}
	path, body := "/api/check", map[string]any{items[0].Type: items[0].Value}
	if len(items) > 1 {
		var checks []map[string]any
		for _, item := range items {
			checks = append(checks, map[string]any{item.Type: item.Value})
		}
		path, body = "/api/check/batch", map[string]any{"checks": checks}
	}
	var answer struct {
		Result
		Results []Result
	}
	c.Began = time.Now()
	key := ""
	if l.Repeat {
		key = crand.Text()
	}
	for {
		c.Status, c.RetryAfter = l.Post(ctx, c.Host, secret, path, key, body, &answer)
		if !l.Repeat || c.Status != 0 && c.Status < http.StatusInternalServerError {
			break
		}
		<-time.After(repeatAfter)
		c.Host = rand.IntN(l.hosts)
	}
	c.Ended = time.Now()
	c.Ref = answer.Ref
	if c.Results = answer.Results; c.Status == http.StatusOK && len(items) == 1 {
		c.Results = []Result{answer.Result}
	}
	Add(l.history, &l.history.Calls, c)
	return c
}

// Erase asks any of the hosts to erase the account's data about an entity, and adds the request to the history.
func (l *Load) Erase(ctx context.Context, client *Client, item Item) {
	_, secret := client.Key()
	e := Erasure{Account: client.Account, Type: item.Type, Value: item.Value, Began: time.Now()}
	status, _ := l.Post(ctx, rand.IntN(l.hosts), secret, "/gdpr/erase", "",
		map[string]string{item.Type: item.Value}, &struct{}{})
	e.Ended, e.Done = time.Now(), status == http.StatusOK
	Add(l.history, &l.history.Erasures, e)
}

// Post makes a request and decodes the answer, if there is one. Without an answer the status is 0. A request that was
// begun is not cancelled. key is its Idempotency-Key, unless that is empty.
func (l *Load) Post(ctx context.Context, host int, secret, path, key string, body, answer any) (status int,
	retryAfter bool) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, l.url(host)+path,
		bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	request.GetBody = nil // so that the client cannot repeat it
	request.Header.Set("Authorization", "Bearer "+secret)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := l.http.Do(request)
	if err != nil {
		return 0, false
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return 0, false
	}
	return response.StatusCode, response.Header.Get("Retry-After") != ""
}

// Receiver returns a receiver of webhooks that adds all deliveries to the history. The path of a request is the
// account, which has the given secret. It refuses the first attempt of some events.
func (h *History) Receiver(secret func(account string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the host was killed meanwhile
		}
		account, ref := strings.TrimPrefix(r.URL.Path, "/"), r.Header.Get("webhook-id")
		mac := hmac.New(sha256.New, []byte(secret(account)))
		mac.Write(body)
		sequence, _ := strconv.ParseInt(r.Header.Get("X-Service-Sequence"), 10, 64)
		Add(h, &h.Deliveries, Delivery{Account: account, Ref: ref, Event: r.Header.Get("X-Service-Event"),
			Sequence: sequence, Body: string(body),
			Signed: r.Header.Get("X-Service-Signature") == "sha256="+hex.EncodeToString(mac.Sum(nil))})
		sum := fnv.New32()
		_, _ = io.WriteString(sum, ref)
		if sum.Sum32()%16 == 0 && r.Header.Get("X-Service-Attempt") == "1" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}
