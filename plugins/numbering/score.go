package main

import (
	"strings"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/ranges"
	"assay/sdk"
)

// Score scores the range of a valid phone number from the phone.* facts and the request's country.
func Score(c *sdk.Check) sdk.Outcome {
	e164, read := c.Fact(sdk.PhoneE164)
	if !read || c.Not(sdk.PhoneValid) {
		return sdk.Abstained // nobody holds the number; the phone layer says so
	}
	a := answer{check: c, guessed: c.Is(sdk.PhoneAssumed)}
	digits := strings.TrimPrefix(e164, "+")
	n := ranges.Number{Code: c.Get(sdk.PhoneCallingCode), National: c.Get(sdk.PhoneNational)}
	switch kind := c.Get(sdk.PhoneType); {
	case n.IsFictional(): // nobody holds it; the phone layer says so
	case kind == "voip":
		a.add(&voip)
	case kind == "pager":
		a.add(&pager)
	case kind == "voicemail":
		a.add(&voicemail)
	case kind == "toll_free":
		a.add(&tollFree)
	case kind == "uan":
		a.add(&company)
	case kind == "fixed_line":
		if isOperatorRange(digits) {
			a.add(&operators, digits[2:5])
		}
	}
	if block, points := reportedBlock(digits); points > 0 {
		seen := reported
		seen.points = points
		a.add(&seen, block)
	}
	a.scoreCountry()
	return sdk.Scored
}

// answer reports signals.
type answer struct {
	check   *sdk.Check
	guessed bool // the country is a guess, so points that depend on it count half
}

func (a *answer) add(kind *style, evidence ...string) {
	points := kind.points
	if a.guessed {
		points /= 2
	}
	a.check.Signal(points, kind.code, quote.Fill(kind.text, evidence...))
}

// historic are the first three digits of French fixed lines in the ranges of the plan of 1996, between spaces: most
// lines of households and of old businesses. Newer operators have the rest.
const historic = " 130 134 139 140 141 142 143 144 145 146 147 148 149 153 155 156 158 160 164 169" +
	" 231 232 233 235 237 238 240 241 243 247 248 251 254 262 296 297 298 299" +
	" 320 321 322 323 324 325 326 327 328 329 344 380 381 382 383 384 385 386 387 388 389" +
	" 437 442 450 466 467 468 470 471 472 473 474 475 476 477 478 479 490 491 492 493 494 495 499" +
	" 534 545 546 549 553 555 556 557 558 559 561 562 563 565 590 594 596 "

// isOperatorRange reports whether a French fixed line is in a range opened since 2000. Numbers that begin with 01 2
// were never assigned.
func isOperatorRange(digits string) bool {
	return len(digits) == len("33123456789") && digits[:2] == "33" && digits[2:4] != "12" &&
		!strings.Contains(historic, " "+digits[2:5]+" ")
}
