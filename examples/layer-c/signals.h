// Code generated from manifest.json by assay plugin build. DO NOT EDIT.
#pragma once

// The labels in front of the registered name have 25 characters or more.
#define SIGNAL_LABELS_LONG "long-subdomain:labels:long"

// The labels in front of the registered name have two hyphens or more.
#define SIGNAL_LABELS_HYPHENS "long-subdomain:labels:hyphens"

// A name with such labels was registered less than 90 days ago.
#define SIGNAL_LABELS_NEW "long-subdomain:labels:new"
