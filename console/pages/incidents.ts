// Current incidents and recent changes.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import type { Node } from "../fleet.ts";
import { html, type View } from "../html.ts";
import { incidentsOf } from "../incidents.ts";
import { shown, useGet, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/controls.ts";

type Change = Responses["GET /v1/admin/audit"]["entries"][number];

export function Incidents(): View {
  const api = useApi();
  const now = useLoaded(
    async () => {
      const [money, { nodes }, { restores }] = await Promise.all([
        api.call<Parameters<typeof incidentsOf>[0]>("GET", "/v1/admin/money"),
        api.call<{ readonly nodes: readonly Node[] }>("GET", "/v1/admin/nodes"),
        api.call<{ readonly restores: Parameters<typeof incidentsOf>[2] }>("GET", "/v1/admin/restores"),
      ]);
      return incidentsOf(money, nodes, restores, Date.now());
    },
    [api],
    5000,
  );
  const changes = useGet<{ readonly entries: readonly Change[] }>("/v1/admin/audit?limit=50", 15_000);
  return html`${shown(now, (incidents) =>
    incidents.length === 0
      ? html`<p class="large">● No incidents.</p>`
      : html`<ul class="banner" aria-label="Incidents">${incidents.map(
          ({ problem, advice, page }) =>
            html`<li><strong>${problem}</strong> ${advice} <a href=${page}>Details</a></li>`,
        )}</ul>`,
  )}
    <h2>Recent changes</h2>
    ${shown(changes, ({ entries }) =>
      entries.length === 0
        ? html`<p class="quiet">No changes.</p>`
        : html`<ol class="changes">${entries.map(
            (one) =>
              html`<li key=${one.id}><${Ago} at=${one.at} />: <b>${one.action}</b> <code>${one.subject}</code> by <code>${one.actor}</code> ${one.note && html`<span class="quiet">${one.note}</span>`}</li>`,
          )}</ol><p><a href="/console/audit">All changes</a></p>`,
    )}`;
}
