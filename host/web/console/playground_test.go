package console

import "testing"

func testPlayground(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	v.get("/dashboard")
	v.follow("playground").is(200, "up to 30 values an hour")
	v.press("Explain", "value", " Shop.example ", "type", "auto")
	v.is(200, "block Shop.example", "Imitates <b>shop.example brands +80.0 Total: a score of 91, block +40.0")
	v.is(200, "Scored without DNS")
	v.press("Explain", "value", "@", "type", "email").is(400, "The email ")
	v.press("Explain", "value", "+4915123456789", "type", "phone").is(403, "free plan")
	v.press("Explain", "value", "shop.example", "type", "domain", "country", "XX").is(400, "The country ")
	for range maxPreviews - 1 {
		v.press("Explain", "value", "shop.example", "country", "").is(200, "a score of 91")
	}
	v.press("Explain", "value", "shop.example", "country", "")
	v.is(429, "You have used the playground 30 times within an hour.")
	other, _ := s.customer(t, "free")
	other.get("/dashboard/playground")
	other.press("Explain", "value", "shop.example").is(200, "a score of 91")
	v.get("/dashboard").is(200, "0 of 50 checks")
}
