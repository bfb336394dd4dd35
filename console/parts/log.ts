import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";

/** The last lines of a deployment's instances, followed. */
export function Log({ id }: { id: string }): View {
  const api = useApi();
  const query = new URLSearchParams({ deploy_id: id, limit: "200" });
  const log = useLoaded(
    async () =>
      (await api.call<{ readonly entries: readonly (readonly string[])[] }>("GET", `/v1/logs/query?${query}`)).entries,
    [api, id],
    3000,
  );
  return shown(log, (entries) =>
    entries.length === 0
      ? html`<p class="quiet">No line yet.</p>`
      : html`<pre class="log" tabindex="0">${entries.map((entry) => entry.at(-1)).join("\n")}</pre>`,
  );
}
