package webhook

import ()

// StandardSignature exports standardSignature to tests of package webhook_test.
var StandardSignature = standardSignature
