// Runs before the page is drawn, so that a chosen theme does not flash.
const chosen = localStorage.getItem("stoker-docs-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
