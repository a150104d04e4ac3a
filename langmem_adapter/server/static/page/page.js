// Keys and dialogs; all that the page does works without it.
"use strict";

const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

function step(by) {
  const entries = [...document.querySelectorAll("[data-entry]")];
  const at = entries.indexOf(document.activeElement);
  entries[Math.min(Math.max(at + by, 0), entries.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const does = {
    "/": () => document.querySelector('[data-key="/"]')?.focus(),
    "j": () => step(1),
    "k": () => step(-1),
    "?": () => document.getElementById("keys").showModal(),
  }[event.key];
  if (does) {
    event.preventDefault();
    does();
  }
});

for (const opener of document.querySelectorAll("[data-opens]")) {
  opener.hidden = false;
  opener.addEventListener("click", () => document.getElementById(opener.dataset.opens).showModal());
}

document.addEventListener("htmx:responseError", (event) => {
  const told = document.querySelector('[role="status"]');
  if (told) told.textContent = `That did not work (${event.detail.xhr.status}). Load the page anew.`;
});

document.addEventListener("htmx:sendError", () => {
  const told = document.querySelector('[role="status"]');
  if (told) told.textContent = "The server does not answer.";
});

document.documentElement.classList.add("js");
