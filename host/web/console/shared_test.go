package console

import "testing"

// TestConsole runs the tests that can share a console: each has accounts of its own, and none changes the clock.
func TestConsole(t *testing.T) {
	t.Parallel()
	serve(t, nil).share(t, map[string]func(*testing.T, *site){
		"Forged Forms":                 testForgedForms,
		"Check Page":                   testCheckPage,
		"Hostile Text":                 testHostileText,
		"Static Files":                 testStaticFiles,
		"Other Methods":                testOtherMethods,
		"Without Java Script":          testWithoutJavaScript,
		"Rejected Webhook URLs":        testRejectedWebhookURLs,
		"Key With Limits":              testKeyWithLimits,
		"Key Form Errors":              testKeyFormErrors,
		"Overrides Page":               testOverridesPage,
		"Overrides Page Errors":        testOverridesPageErrors,
		"List Pages":                   testListPages,
		"Docs Name Threats":            testDocsNameThreats,
		"Docs Of Layers":               testDocsOfLayers,
		"Updated Parts":                testUpdatedParts,
		"Error Pages":                  testErrorPages,
		"Privacy Page":                 testPrivacyPage,
		"Privacy Page Errors":          testPrivacyPageErrors,
		"Large Subject Page":           testLargeSubjectPage,
		"Favicon":                      testFavicon,
		"Error Pages Name The Request": testErrorPagesNameTheRequest,
		"Second Test Payment":          testSecondTestPayment,
		"Change Plan":                  testChangePlan,
		"Checkout Form":                testCheckoutForm,
		"Test Mode":                    testTestMode,
		"No Mail":                      testNoMail,
		"Usage Page":                   testUsagePage,
	})
}

// TestCheckout runs the tests that share a console whose payments are confirmed later.
func TestCheckout(t *testing.T) {
	t.Parallel()
	serve(t, useLateProvider).share(t, map[string]func(*testing.T, *site){
		"Checkouts In Several Tabs":              testCheckoutsInSeveralTabs,
		"Second Subscription":                    testSecondSubscription,
		"Subscription Ended Before Success Page": testSubscriptionEndedBeforeSuccessPage,
		"Change Payment":                         testChangePayment,
	})
}

func (s *site) share(t *testing.T, tests map[string]func(*testing.T, *site)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}
