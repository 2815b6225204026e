// Enhances pages that also work without this script: copy buttons, confirmations, and parts of a page that are replaced
// in place. The server always sends whole pages; this script takes from them the parts that it needs.
"use strict";

const refreshInterval = 3_000; // milliseconds
const requestTimeout = 20_000; // longer than the server works on a page

// load requests a page of this host. It returns null if no page comes back. Without the header, errors are JSON.
async function load(url, options) {
  try {
    const response = await fetch(url, {
      ...options, headers: { Accept: "text/html" }, signal: AbortSignal.timeout(requestTimeout),
    });
    if (!response.headers.get("Content-Type")?.startsWith("text/html")) return null;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return { page, ok: response.ok, url: response.url, redirected: response.redirected };
  } catch {
    return null;
  }
}

// replace updates the part of this page with an id from another page, and keeps the keyboard focus and what is
// unfolded. It reports whether the other page has the part.
function replace(id, page) {
  const part = document.getElementById(id);
  const update = page.getElementById(id);
  if (!part || !update) return false;
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  for (const open of part.querySelectorAll("details[open][id]")) {
    update.querySelector(`#${open.id}`)?.setAttribute("open", "");
  }
  part.replaceChildren(...update.childNodes);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  return true;
}

function alertElement(text) {
  const alert = document.createElement("p");
  alert.className = "error";
  alert.setAttribute("role", "alert");
  alert.textContent = text;
  return alert;
}

// markFields connects the fields of a form to their errors, as on the page that answered it, and focuses the first.
function markFields(form, page) {
  for (const field of form.querySelectorAll("input, select, textarea")) {
    const answered = page.getElementById(field.id);
    for (const name of ["aria-invalid", "aria-describedby"]) {
      if (answered?.hasAttribute(name)) field.setAttribute(name, answered.getAttribute(name));
      else if (answered) field.removeAttribute(name);
    }
  }
  form.querySelector("[aria-invalid]")?.focus();
}

// <form data-update="result usage"> replaces the parts with these ids by those of the page that answers the form.
async function submit(form, submitter) {
  if (form.ariaBusy) return;
  form.ariaBusy = "true";
  const answer = await load(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, submitter)) });
  form.ariaBusy = null;
  const ids = form.dataset.update.split(" ");
  if (answer && ids.filter((id) => replace(id, answer.page)).length > 0) {
    markFields(form, answer.page);
    return;
  }
  if (answer?.redirected) {
    location.assign(answer.url);
    return;
  }
  // An error page says what is wrong.
  const reason = answer?.page.querySelector("main [role=alert]")?.textContent;
  const text = reason ?? "The server did not answer. Please try again in a minute.";
  document.getElementById(ids[0]).replaceChildren(alertElement(text));
}

const doubleClick = 1_000; // milliseconds
const sent = new WeakMap(); // when each form was submitted

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.getAttribute("action") === "/signout") remember(testKey, null);
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) {
    event.preventDefault();
  } else if (form.dataset.update) {
    event.preventDefault();
    submit(form, event.submitter);
  } else if (event.timeStamp - (sent.get(form) ?? -doubleClick) < doubleClick) {
    event.preventDefault(); // the second click of a double click must not begin a second checkout
  } else {
    sent.set(form, event.timeStamp);
  }
});

// <div id="events" data-refresh="/path"> is replaced every few seconds by the part of that page with the same id.
async function refresh(part) {
  const answer = await load(part.dataset.refresh);
  if (answer?.ok && replace(part.id, answer.page)) return;
  if (answer?.redirected) {
    location.assign(answer.url); // to the sign-in page
  } else if (!part.querySelector(":scope > .error")) {
    part.prepend(alertElement("This list is out of date, because the server did not answer. Trying again …"));
  }
}

async function keepRefreshing(part) {
  if (!document.hidden) await refresh(part);
  setTimeout(keepRefreshing, refreshInterval, part);
}

for (const part of document.querySelectorAll("[data-refresh]")) setTimeout(keepRefreshing, refreshInterval, part);

// <button data-copy="key"> copies the text of the element with that id.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  const label = button.textContent;
  let timer;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not copied");
    clearTimeout(timer);
    timer = setTimeout(() => { button.textContent = label; }, 1_500);
  });
}

// remembered returns what this browser remembers under a name, and remember changes it; null forgets it. Storage can be
// full or forbidden: then it lasts as long as the page.
function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // See above.
  }
}

// The reader's own test key is filled into the snippets of <article data-test-key>. It gets fixed answers and nothing
// else, so the browser may remember it until it signs out.
const testKey = "test-key";

const issued = document.getElementById("issued")?.textContent ?? "";
if (issued.startsWith("assay_test_")) remember(testKey, issued);

const filled = document.querySelector("[data-test-key]");
const own = remembered(testKey);
if (filled && own) {
  for (const code of filled.querySelectorAll("code[id^=code-]")) {
    code.textContent = code.textContent.replaceAll("$ASSAY_KEY", own).replaceAll(
      /os\.Getenv\("ASSAY_KEY"\)|process\.env\.ASSAY_KEY!|os\.environ\["ASSAY_KEY"\]/g, `"${own}"`);
  }
  document.getElementById("own-key").hidden = false;
}

// The language of snippets that the reader chose last is shown in all of them, on every page.
const languageKey = "language";

function showLanguage(language) {
  for (const tab of document.querySelectorAll(".tabbed input")) {
    if (tab.value === language) tab.checked = true;
  }
}

document.addEventListener("change", (event) => {
  if (!event.target.matches(".tabbed input")) return;
  const top = event.target.getBoundingClientRect().top;
  showLanguage(event.target.value);
  scrollBy(0, event.target.getBoundingClientRect().top - top); // snippets above can have another height now
  remember(languageKey, event.target.value);
});

showLanguage(remembered(languageKey));

// <a href="/list" data-download="status"> downloads a list with a line for each entry, and the element with that id says
// how much of it has come. A response that breaks off is not saved.
async function download(link) {
  const status = document.getElementById(link.dataset.download);
  if (link.ariaBusy) return;
  link.ariaBusy = "true";
  try {
    const response = await fetch(link.href);
    if (!response.ok || response.redirected) throw new Error(`status ${response.status}`);
    const total = Number(response.headers.get("X-Total-Count"));
    const parts = [];
    let lines = 0;
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      for (const byte of part.value) if (byte === 10) lines++;
      status.textContent = `${Math.min(lines, total).toLocaleString("en")} of ${total.toLocaleString("en")} …`;
    }
    const file = document.createElement("a");
    file.href = URL.createObjectURL(new Blob(parts, { type: response.headers.get("Content-Type") }));
    file.download = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"))[1];
    file.click();
    URL.revokeObjectURL(file.href);
    status.textContent = `${total.toLocaleString("en")} saved.`;
  } catch {
    status.textContent = "The download broke off, and nothing was saved. Please try again.";
  }
  link.ariaBusy = null;
}

for (const link of document.querySelectorAll("[data-download]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    download(link);
  });
}
