import { expect, it } from "vitest";
import { isForeign } from "../../../../../control-plane/http/dashboards/dashboard-edge.ts";

const host = "agent-1.dash.example.com";
const [visit, asset] = [
  { "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
  { "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" },
];

it.each([
  ["its own page's", "POST", { "sec-fetch-site": "same-origin", origin: "null" }, false, false],
  ["an address that was typed", "GET", { "sec-fetch-site": "none", ...visit }, false, false],
  ["a link elsewhere", "GET", { "sec-fetch-site": "cross-site", ...visit }, false, false],
  ["a neighbour's image", "GET", { "sec-fetch-site": "same-site", ...asset }, false, true],
  ["a frame elsewhere", "GET", { "sec-fetch-site": "cross-site", ...visit, "sec-fetch-dest": "iframe" }, false, true],
  ["a neighbour's form", "POST", { "sec-fetch-site": "same-site", ...visit }, false, true],
  ["a neighbour's WebSocket", "GET", { "sec-fetch-site": "same-site" }, true, true],
  ["its own WebSocket, of an older browser", "GET", { origin: `https://${host}` }, true, false],
  ["a neighbour's, of an older browser", "GET", { origin: "https://agent-2.dash.example.com" }, true, true],
  ["a neighbour's form, of an older browser", "POST", { origin: "https://agent-2.dash.example.com" }, false, true],
  ["a write from nowhere", "POST", { origin: "null" }, false, true],
  ["a program's", "POST", {}, false, false],
])("%s %s: foreign or not", (_, method, headers, isUpgrade, expected) => {
  expect(isForeign(method, { host, ...headers }, isUpgrade)).toBe(expected);
});
