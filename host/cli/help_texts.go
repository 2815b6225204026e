package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"assay/host/check"
	"assay/host/installation"
)

// helpExamples are the commands that the first page of help ends with.
var helpExamples = [][2]string{
	{"assay keys create", "Create an API key"},
	{"assay lineup show", "Show the lineup in force"},
	{"assay audit verify", "Verify the audit trail"},
}

// helpTexts holds the help texts that do not fit into a struct tag. A tag refers to one as ${name}.
var helpTexts = kong.Vars{
	"version": installation.VersionText(),
	"threats": threatNames(),
	"plans":   strings.Join(check.PlanNames(), ","),
	"formats": "auto,hosts,plain,csv,json,misp,stix",

	// Settings, in the order of Config.
	"listen": "Address to serve on. It speaks HTTPS if ASSAY_TLS_CERT is set, else plain HTTP.",
	"config": "File with lines such as ASSAY_LISTEN=:8080. A flag and the environment precede it.",
	"admin_listen": "Address for operators alone, or 'off'. It has metrics, profiles, readiness and the operator's " +
		"pages, which customers must not reach. It is on loopback, on the port after that of --listen. " +
		"Default: loopback, port + 1.",
	"operator_token": "Token that opens the operator's page, /operator. The page is on the address for operators. " +
		"The token has at least 16 characters. Default: the page is closed.",
	"database_url": "Postgres, as postgres://user:password@host/name. Default: a private one.",
	"direct_url": "The same database without a pooler. Migrations and notifications need it. " +
		"Default: ASSAY_DATABASE_URL.",
	"connections": "Maximum number of connections of a host.",
	"chains": "Audit chains over which accounts are spread. More chains record more checks at the same time. " +
		"Raise it once all hosts run this version; an account keeps its chain.",
	"data_dir": "Directory of the host's files. They are the secret, keys, logs, built layers and compiled code, " +
		"checkpoints and the private Postgres.",
	"secret_file": "File of the master secret, the same on all hosts. It is created at the first start. " +
		"Default: DATA_DIR/secret.",
	"checkpoint_key": "File of the key that signs checkpoints. 'assay secret key' creates it, and 'assay secret " +
		"delegate' puts it in use. Default: the secret's.",
	"checkpoint_command": "Command that signs checkpoints. It gets the text as its input and prints the Ed25519 " +
		"signature in base 64, within 5 seconds. Its words are separated by spaces. 'assay secret delegate' puts it " +
		"in use. Default: none.",
	"trust_file": "File of keys that may sign lineups and plugins. It is created at the first start, named trust. " +
		"Default: next to the secret.",
	"operator_key": "File of the private key that signs activations. It is created at the first start, named " +
		"operator.key. Default: next to the secret.",
	"trusted_proxies": "Proxies whose X-Forwarded-For is trusted. They are networks or addresses.",
	"webhook_allow":   "Private networks that webhooks may reach. Any port is allowed there, and plain HTTP.",
	"rates": "Requests a minute by plan (pro=3000), or 'off'. 'public' limits checks without a key, and " +
		"'network' look-ups of keys, each for a /24 or /48. " + "Default: " + defaultRates() + ".",
	"security_contact": "Where to report vulnerabilities. An example is mailto:security@assay.example. It is " +
		"published as /.well-known/security.txt. Default: no such file.",
	"public_url": "This service's URL for customers. An example is https://assay.example. " +
		"Default: the request's host.",
	"tls_cert": "File of the certificate for HTTPS, as PEM. Intermediate certificates follow the host's own. The " +
		"file is read again when it changes. Default: plain HTTP.",
	"tls_key": "File of the certificate's private key, as PEM. It belongs to ASSAY_TLS_CERT.",
	"drain": "How long a stopping host goes on serving. /readyz says 503 meanwhile, so that load balancers go " +
		"elsewhere. Default: 5s, terminal 0s.",
	"stripe_key":            "Stripe's secret API key. Default: no paid plans.",
	"stripe_webhook_secret": "Signing secret of Stripe's webhook. The webhook posts to /api/billing/stripe.",
	"smtp_url": "Mail server for sign-in links. An example is " +
		"smtps://user:password@host:465?from=assay%40example.com. With smtp:// it uses STARTTLS. It needs ASSAY_URL. " +
		"Default: none.",
	"witness_setting": "Witnesses that cosign the audit log's checkpoints. Each is a URL, a space and the key that " +
		"'assay witness' prints. Default: none.",
	"stripe_tax": "Let Stripe Tax add VAT to the prices. Enable it in Stripe's dashboard first.",
	"links": "Your pages by name. The names are terms, dpa, imprint, support and status. An example is " +
		"terms=https://a.example/terms. support may be a mailto: address. They are linked in the footer. At " +
		"checkout, customers accept the terms and the data-processing agreement (dpa).",
	"stripe_url": "Base URL of Stripe's API, for tests.",
	"test_checkout": "Sell all plans for test cards. Anybody gets a key, and nobody pays. It is always so with the " +
		"private database, unless ASSAY_STRIPE_KEY is set.",
	"dns": "DNS resolvers to query, by preference, or 'off'. Default: the system's.",
	"rdap_url": "RDAP server to query, or 'off'. It is asked for domain registrations in the background. " +
		"Default: the registries'.",
	"mmdb_asn":     "MaxMind-format file of autonomous systems. An example is GeoLite2-ASN.mmdb.",
	"mmdb_country": "MaxMind-format file of countries. An example is GeoLite2-Country.mmdb.",
	"dnsbl":        "Zones of DNS blocklists to query. 'domain:' precedes a zone that lists domains.",

	"flip_limit": "Share of verdicts that a new lineup may change. 'lineup set' needs --force if it changes more of " +
		"a type's recent verdicts (below 200 checks: those of reference values), and a canary is withdrawn.",

	"description": "Assay scores domains, email addresses, phone numbers and IBANs for fraud, in sandboxed layers.",

	// Commands. The first sentence of each is its line in lists of commands.
	"serve_cmd":    "Run the host (the default): the API, the dashboard and webhooks.",
	"config_cmd":   "Show the settings in force and where each comes from. Nothing is opened or created.",
	"lineup_cmd":   "Show and change the lineup: which layers score, with what weight.",
	"feeds_cmd":    "Subscribe to lists of known bad and known good entities, or import and withdraw them.",
	"feedback_cmd": "Measure signals by what customers reported about their checks.",
	"audit_cmd":    "Verify the audit trail, the record of all decisions, and sign checkpoints of it.",
	"audit_export_cmd": "Export the audit log to a file, which 'audit verify --offline' verifies without a database. " +
		"It has the records' pseudonyms, and no values.",
	"secret_rotate_cmd": "Replace the keys that sign checkpoints and encrypt values. It adds a generation to the " +
		"secret file, from which keys derive after a time. Keys by which stored data is found stay.",
	"secret_in": "Time until the new keys are in use. By then, all hosts need the file (default: ${default}).",
	"secret_delegate_cmd": "Let another key than that of the secret sign checkpoints. ASSAY_CHECKPOINT_KEY or " +
		"ASSAY_CHECKPOINT_COMMAND says where it is.",
	"secret_public_key": "Public key with which the command signs, as 'assay secret key' printed it.",
	"secret_sign_cmd": "Sign a checkpoint. This is for ASSAY_CHECKPOINT_COMMAND, on the machine that has the key, " +
		"such as 'ssh signer assay secret sign FILE'.",
	"secret_reseal_cmd": "Encrypt values again that do not end by themselves, under the keys in use.",
	"audit_loss_cmd": "Accept that records which were answered are lost, after a failover or the restore of an older " +
		"backup. Until then, hosts that miss them refuse checks. Without --reason, it only shows the losses.",
	"audit_loss_reason":  "Accept the losses, and record this reason in the audit log: one line.",
	"audit_receipt_cmd":  "Verify the receipt of a check, also on a machine without an installation.",
	"receipt_public_key": "File of the service's verifier keys, as its 'assay audit checkpoint' prints them.",
	"receipt_witness":    "Verifier key of a witness that must have signed the checkpoint.",
	"receipt_log": "Compare the receipt also with the log that the service at this URL publishes now. A promise that " +
		"was not kept is reported as broken.",
	"audit_public_key": "File of the installation's verifier keys, as 'assay audit checkpoint' prints them. With it, " +
		"the command needs no secret, no data directory and no more than a role that may read the database.",
	"audit_offline": "Verify this export instead of a database. Requires --public-key.",
	"audit_witness": "Key of a witness, as 'assay witness' prints it. With it, records that are older than a minute " +
		"and that the witness did not cosign are an error. Can be repeated.",
	"witness_cmd": "Run a witness: it cosigns checkpoints of logs that only grow. Run it on a machine that the log's " +
		"operator cannot change, with a proxy for HTTPS. It needs no installation.",
	"witness_trust": "File of verifier keys of logs, one a line, as 'assay audit checkpoint' prints them. " +
		"The name of a key is its log's origin.",
	"check_cmd": "Score one value and show every layer with its points and signals. Nothing is recorded. " +
		"Without an installation, it uses the built-in lineup and no database.",
	"check_lineup": "Score with this lineup instead of the one in force. Layers are named name@version as published, " +
		"or by name alone for built-in ones.",
	"eval_cmd":  "Measure a lineup on labelled values: the fraud it catches, the honest values it flags.",
	"bench_cmd": "Measure throughput and latency on this machine. It starts hosts for the purpose.",
	"plugin_new_cmd": "Create a folder with a complete small layer, its tests and a copy of the SDK. It needs no " +
		"network and nothing else of Assay.",
	"plugin_sdk_cmd":   "Write this version's copy of the SDK to a layer's folder, and the constants of its signals.",
	"plugin_build_cmd": "Compile a layer with its language's compiler, or pack a compiled module, with its manifest.",
	"lineup_fit_cmd": "Fit the weights and the bias to labelled values. Nothing is set: the result is a document for " +
		"'lineup diff' and 'lineup set'.",

	"keys_account": "Add a key to this account instead of creating an account. The keys of an account share its quota.",
	"keys_scope": "What the key may be used for, separated by commas: check, batch, events, feedback, overrides or " +
		"privacy. All if absent.",
	"keys_allow": "Networks or addresses that the key may be used from, separated by commas, such as 192.0.2.0/24 or " +
		"2001:db8::/32. All if absent.",
	"keys_expires": "When the key ends: a time such as 2026-01-31T08:00:00Z, or from now, such as 90d. A key that " +
		"replaces it gets the same lifetime.",
	"keys_test": "Create a test key: checks of documented test values get fixed answers, and nothing is recorded or " +
		"counted.",
	"keys_rotate_cmd": "Issue a new key with the same name, limits and lifetime, and end the old one after an overlap.",

	"accounts_signin_cmd": "Print a link that signs in to an account once, within 15 minutes. It is for an owner who " +
		"lost the sign-in code and can prove to be the owner.",
	"accounts_signout_cmd": "End all sessions of an account and withdraw its sign-in code. Keys keep working: " +
		"'assay keys revoke' ends them.",

	"accounts_suspend_cmd": "Suspend an account: hosts refuse all its keys with 403. Everything else stays as it is.",

	"privacy_export_cmd": "Print all that accounts hold about a value, as JSON. The audit log of each account " +
		"records it.",
	"privacy_erase_cmd": "Erase all that accounts hold about a value: checks, webhook events, feedback, the " +
		"reputation graph and overrides. The operator's own overrides and lists stay.",

	"database_cmd": "Run a program such as pg_dump on the database, or distribute it.",
	"database_exec_cmd": "Run a program of Postgres on the database. It gets the address in its environment. The " +
		"private Postgres is started if necessary.",
	"database_exec_create": "Create the private Postgres if there is none, to restore a backup into.",
	"database_distribute_cmd": "Spread the tables over the nodes of a Citus cluster. Repeat it after an interruption " +
		"or an upgrade, for which it migrates the database. Stop the hosts first.",

	"webhooks_rotate_cmd": "Create a new signing secret and print it. It replaces the old one in 24 hours.",
	"webhooks_set_cmd":    "Set an account's webhook URL. The first time, print a signing secret; later ones keep it.",
	"webhooks_url": "URL to send events to. It must use https and a public address, " +
		"unless the hosts' ASSAY_WEBHOOK_ALLOW permits another.",
	"webhooks_since": "With --account: only events that failed since a time such as 2026-01-31T08:00:00Z, " +
		"or within a duration such as 2h.",

	"overrides_range": "Phone numbers that begin with these digits: +, the country code and at least two more.",
	"overrides_bank":  "IBANs of this bank: the country and the bank code, such as DE37040044.",
	"overrides_expires": "When it ends: a time such as 2026-01-31T08:00:00Z, or from now, such as 30d or 12h; at " +
		"most 365d.",

	"layers_show_cmd":   "Show a layer's signals. The hit rate and the precision come from customers' feedback.",
	"layers_show_layer": "Name of a layer, or NAME@VERSION. Default: the version in force, or the newest.",

	"plugin_test_cmd": "Run a layer's cases in the sandbox. It shows what the layer did in each case that fails, and " +
		"which signals no case emits.",
	"plugin_run_cmd": "Call a layer with one value, and show all that it did. That is facts read, signals, log " +
		"lines, fuel, memory and time.",
	"plugin_dev_cmd": "Work on a layer: after each change, build it, run its cases, and put it in shadow on the " +
		"running installation. It shows what the layer finds in real checks, without their values.",
	"plugin_dev_keep": "Leave the layer in shadow at the end. 'assay plugin retire' takes it out.",
	"plugin_promote_cmd": "Move a published plugin one step: to shadow, then into a canary, then live. The hosts " +
		"prepare each step, and it shows what would change.",
	"plugin_promoted": "Published plugin, as NAME or NAME@VERSION, or its folder or .wasm file. Without a version, " +
		"NAME is the one in the canary, or else the newest.",
	"plugin_retired": "Name of the plugin, or its folder or .wasm file.",
	"plugin_transfer_cmd": "Give the name of a plugin to another key, which may then publish versions of it. The " +
		"operator's key signs that. What is published stays.",
	"plugin_transfer_to": "The new owner: name of an operator's or publisher's key of the trust file, public key, " +
		"or 'release', to which the names of built-in layers belong.",
	"plugin_promote_share":  "Share of the accounts in the canary (default: 5%).",
	"plugin_promote_weight": "Weight in the lineup (default: as before, or else the manifest's default_weight).",
	"plugin_retire_cmd":     "Take a plugin out of the lineup in force and its canary. It stays published.",
	"plugin_retire_force": "Retire it even if it is required, or if that changes more verdicts than ASSAY_FLIP_LIMIT " +
		"allows. Needs --reason.",
	"plugin_conformance": "Test the SDK: compare the layer with the first one of 'assay plugin new' in Go. " +
		"All that it does must be the same for 10,000 vectors of facts.",
	"plugin_facts": "Looked-up facts and settings as a JSON object, such as {\"rdap.age_days\": \"3\", " +
		"\"config.limit\": \"5\"}, or a file of 'assay plugin facts --record'. '-' reads standard input. " +
		"Default: none.",
	"plugin_live": "Look up the facts that the layer's manifest declares, as 'assay plugin facts' does. Those of " +
		"--facts take their place.",
	"plugin_facts_cmd": "Look up the facts about a value as a host does. Without an installation, those that need a " +
		"database are unknown.",
	"plugin_record":  "Write the looked-up facts to this file, for 'assay plugin run --facts' and for cases.",
	"plugin_account": "Also look up the history of this account's checks.",
	"plugin_eval_cmd": "Measure a layer on labelled values: alone, and what it adds to a lineup. Weights are fitted " +
		"with and without it, and values are scored by weights that were fitted without them.",
	"plugin_eval_lineup": "Compare with this document instead of the active lineup. Layers are named name@version as " +
		"published, or by name alone for built-in ones.",
	"train_cmd": "Teach a layer of this release names that you have.",
	"train_lexical_cmd": "Teach the lexical layer labelled domains. The result is a plugin to push and promote. " +
		"Nothing is written if it reviews or blocks more honest names than the layer in force.",
	"train_files": "Files of labelled domains as JSON lines {\"type\", \"value\", \"label\", \"source\", \"date\"}, " +
		"optionally compressed with gzip, reported and honest ones. Of lines with the same \"account\", 100 of each " +
		"label count.",
	"train_as": "Version of the plugin, such as 1.5.1-local.1.",
	"plugin_inspect_cmd": "Show what a plugin is and may do, who signed it and who owns its name: permissions, " +
		"facts, signals, imports, sizes.",
	"plugin_bench_cmd": "Measure the fuel, memory and time of a layer's calls over a corpus of values.",
	"plugin_values": "Values to call the layer with, one a line. '-' reads standard input. " +
		"Default: built-in ones and variations of the layer's cases.",
	"plugin_baseline": "Compare with this: a file of 'assay plugin bench --json' that ends in .json, a folder or a " +
		".wasm file.",
	"plugin_key_cmd":    "Create a key that signs plugins, and print its line for trust files.",
	"plugin_sign_cmd":   "Sign a plugin's name, version and digest. 'assay plugin push' uses the file that it writes.",
	"plugin_sign_key":   "File of the key, as 'assay plugin key' creates it (default: the operator's).",
	"plugin_sign_out":   "File to write (default: the plugin's, with .sig added; for a folder NAME-VERSION.wasm.sig).",
	"plugin_verify_cmd": "Verify the signature of a plugin against the trust file. It needs no database.",
	"plugin_signature":  "File of the signature (default: that of 'assay plugin sign').",
	"plugin_push_cmd": "Publish a plugin in the installation's database, or in an OCI registry. It scores nothing " +
		"until a lineup names it. Without a signature, the operator's key signs it.",
	"plugin_push_reference": "OCI registry to push to instead, such as registry.example/team/my-layer. Without a " +
		"tag, it is the version.",
	"plugin_pull_cmd": "Verify a plugin in an OCI registry against the trust file, and publish it in the " +
		"installation's database.",
	"plugin_pull_reference": "Plugin, such as registry.example/team/my-layer:1.0.0. With a digest in place of the " +
		"tag (@sha256:...), it may be older than what is published.",
	"plugin_pull_out":   "Write the plugin to this file instead, and its signature next to it.",
	"registry_username": "User name in the registry (default: as docker's and oras' configuration says).",
	"registry_password": "File of the password or the access token. '-' reads standard input.",
	"registry_ca":       "File of certificates as PEM to trust besides the system's.",
	"registry_plain":    "Use plain HTTP. Without it, only a registry on this machine may lack TLS.",

	"plugin_inspect_path": "Folder of a layer, which is built, a .wasm file, or a published plugin, NAME@VERSION.",
	"plugin_path":         "Folder of a layer, which is built, or a .wasm file of 'assay plugin build'.",
	"plugin_wasm":         "Module compiled elsewhere, to pack instead of compiling the folder's code.",
	"plugin_out":          "File to write (default: NAME-VERSION.wasm in the working directory).",

	"lineup_show_file": "Print the lineup as a file to edit and to give to 'lineup set'. " +
		"It names the activation in force, which must still be in force then.",
	"lineup_above": "Give the activation a number above N, the highest that hosts ran. " +
		"Needed after an older backup was restored.",
	"lineup_show_json": "Print JSON. The field 'lineup' of a revision is a document for 'lineup set'.",

	"lineup_set_cmd": "Activate a lineup on all hosts, as a new revision. " + check.WeightMeans +
		" The bias is in log-odds too; bands and floors are scores.",
	"lineup_canary_cmd": "Let a lineup score for a share of the accounts. It is withdrawn by itself if it fails, or " +
		"changes too many verdicts.",
	"lineup_canary_file": "Lineup as JSON. '-' reads standard input. Without it, the canary in force is changed.",
	"lineup_canary_limit": "Share of the verdicts that the canary may change before it is withdrawn " +
		"(default: ASSAY_FLIP_LIMIT).",

	"lineup_promote_force": "Promote it even if no host has compared a check that it scored. Needs --reason.",
	"lineup_force":         "Activate it though it changes more verdicts than ASSAY_FLIP_LIMIT allows. Needs --reason.",

	"labelled_files": "Files of labelled values as JSON lines {\"type\", \"value\", \"label\"}, optionally " +
		"compressed with gzip. '-' reads standard input. Lines may also have \"source\", \"category\", \"rank\", " +
		"\"facts\" to replay instead of looking them up, and \"held_out\", the scores of layers by models that were " +
		"trained without the line.",
	"labelled_held_out": "Use the \"held_out\" scores of this file's lines for the same values. May be repeated.",
	"labelled_type":     "Use only values of this type, and assume it for values without a type:",
	"labelled_skip_bad": "Skip lines that cannot be read as labelled values.",

	"eval_lineup": "Measure this document instead of the active lineup. Layers are named name@version as " +
		"published, or by name alone for built-in ones.",
	"eval_prevalence": "Share of fraud that calibration assumes (default: the share in the files).",
	"eval_lookups": "Look up facts too, as a check does: what DNS and other sources return today. " +
		"Without lookups, the same values always give the same report.",

	"fit_lineup":     "Fit this document instead of the active lineup, in the form of 'assay eval --lineup'.",
	"fit_l2":         "Penalty on what style layers contribute, so that the scores of honest values stay apart",
	"fit_prevalence": "Share of fraud that scores assume at most",
	"fit_review_fpr": "Maximum share of each type's benign values that may be reviewed or blocked",
	"fit_block_fpr":  "Maximum share of each type's benign values that may be blocked",
	"fit_suffix_fpr": "Maximum share of a suffix's benign values that may be reviewed or blocked, if it has 50",
	"fit_feedback": "Also fit to what customers reported after checks, as far as the layers scored it in " +
		"the versions of this lineup.",
	"fit_only": "Fit only the weights of these layers, and keep the bias and all other weights. May be repeated.",

	"feeds_subscribe_cmd": "Fetch a list now, and let the hosts fetch it again regularly. " +
		"Nothing is fetched without a subscription.",
	"feeds_subscribe_from": "A list of 'feeds recommend' by its name, or an https URL.",
	"feeds_every":          "Interval, such as 1h or 1d (default: as recommended, otherwise 6h).",
	"feeds_subscribe_expires": "Age at which the entries expire if the list cannot be fetched " +
		"(default: 30d). They are out of date after four intervals, but not within a day.",
	"feeds_subscribe_kind": "Kind of the entries: bad, good or ranked. Required with a URL.",
	"feeds_format":         "Format of the list: hosts, plain, csv, json, misp or stix (default: detected).",
	"feeds_non_commercial": "Confirm that your use is not commercial, for lists whose terms require this.",
	"feeds_withdraw_cmd":   "Disable a list on all hosts at once, end its subscription and delete its entries.",
	"feeds_import_cmd":     "Import a list of bad, good or ranked entities. It replaces the list's earlier content.",
	"feeds_from": "List to import: a file, an https URL, or '-' for standard input. " +
		"It may be compressed with gzip, or be the only file in a ZIP file.",
	"feeds_name":   "Name of the list in signals, such as URLhaus. The next import under this name replaces it.",
	"feeds_column": "CSV: name or number of the column with the entities. JSON: name of the member with them.",
	"feeds_country": "Read phone numbers in national format as numbers of this country. " +
		"Without it, they count as malformed.",
	"feeds_expires": "Age at which the list expires unless it is imported again, such as 12h, 30d or 8w " +
		"(default: never).",

	"feedback_signals_cmd": "Count for each signal how many of the labelled checks that showed it were fraud. " +
		"Only feedback with the checked value counts.",
	"graph_forget_cmd": "Delete the contributions of an account, or the observations of a value. " +
		"Revoke the keys of an abusive account first.",
	"graph_value": "A domain, email address, phone number or IBAN " +
		"(default: everything that the account contributed).",
	"graph_account": "Delete only what this account contributed (default: all accounts, for the value).",

	"audit_checkpoints": "Files of signed checkpoints to verify against (default: those in the data directory).",
}

// defaultRates returns the default rates, those of plans first.
func defaultRates() string {
	rates := installation.DefaultRates()
	var all []string
	for _, name := range append(check.PlanNames(), installation.PublicRate, installation.NetworkRate) {
		all = append(all, fmt.Sprintf("%s=%d", name, rates[name]))
	}
	return strings.Join(all, ", ")
}
