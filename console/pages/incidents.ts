// What needs an operator now, and what was done before it began.
import { useApi } from "../api.ts";
import type { Node } from "../fleet.ts";
import { html, type View } from "../html.ts";
import { incidentsOf } from "../incidents.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";

interface Change {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly note: string;
}

export function Incidents(): View {
  const api = useApi();
  const now = useLoaded(
    async () => {
      const [money, { nodes }] = await Promise.all([
        api.call<Parameters<typeof incidentsOf>[0]>("GET", "/v1/admin/money"),
        api.call<{ readonly nodes: readonly Node[] }>("GET", "/v1/admin/nodes"),
      ]);
      return incidentsOf(money, nodes);
    },
    [api],
    5000,
  );
  const changes = useLoaded(
    async () => (await api.call<{ readonly entries: readonly Change[] }>("GET", "/v1/admin/audit?limit=50")).entries,
    [api],
    15_000,
  );
  return html`${shown(now, (incidents) =>
    incidents.length === 0
      ? html`<p class="large">● Nothing needs you.</p>`
      : html`<ul class="banner" aria-label="What needs you">${incidents.map(
          ({ what, advice, page }) => html`<li><strong>${what}</strong> ${advice} <a href=${page}>Look</a></li>`,
        )}</ul>`,
  )}
    <h2>The last changes</h2>
    ${shown(changes, (entries) =>
      entries.length === 0
        ? html`<p class="quiet">Nothing was changed yet.</p>`
        : html`<ol class="changes">${entries.map(
            (one) =>
              html`<li key=${one.id}><${Ago} at=${one.at} />: <b>${one.action}</b> <code>${one.subject}</code> by <code>${one.actor}</code> ${one.note && html`<span class="quiet">${one.note}</span>`}</li>`,
          )}</ol><p><a href="/console/audit">All of them</a></p>`,
    )}`;
}
