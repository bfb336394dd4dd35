import { useEffect, useState } from "preact/hooks";
import { agoText, inUtc } from "../format.ts";
import { html, type View } from "../html.ts";

/** Relative time, with the absolute time on hover. */
export function Ago({ at }: { at: number | string | null }): View {
  const [nowMs, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (at === null || at === "") return "never";
  const atMs = typeof at === "number" ? at * 1000 : Date.parse(at);
  if (Number.isNaN(atMs)) return String(at);
  return html`<time datetime=${new Date(atMs).toISOString()} title=${inUtc(atMs)}>${agoText(atMs, nowMs)}</time>`;
}
