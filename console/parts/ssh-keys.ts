import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "./act.ts";
import { Ago } from "./ago.ts";
import { Field, Form } from "./form.ts";

interface SshKey {
  readonly id: string;
  readonly name: string;
  readonly fingerprint: string;
  readonly created_at: number;
}

export function SshKeys(): View {
  const api = useApi();
  const keys = useLoaded(() => api.call<readonly SshKey[]>("GET", "/v1/ssh_keys"), [api]);
  const add = async ({ name, key }: Readonly<Record<string, string>>) => {
    await api.call("POST", "/v1/ssh_keys", { name, key });
    await keys.reload();
  };
  return html`${shown(keys, (list) =>
    list.length === 0
      ? html`<p class="quiet">None yet: add one before you rent a container, for nobody else is let in.</p>`
      : html`<ul>${list.map(
          (one) => html`<li key=${one.id}>${one.name} <code>${one.fingerprint}</code> <${Ago} at=${one.created_at} />
            <${Act} label="Delete" sure=${`Delete the key “${one.name}”? Containers that run keep it.`} onAct=${async () => {
              await api.call("DELETE", `/v1/ssh_keys/${encodeURIComponent(one.id)}`);
              await keys.reload();
            }} /></li>`,
        )}</ul>`,
  )}
    <${Form} act="Add the key" done="Added." onSend=${add}>
      <${Field} label="Name of the key" name="name" maxlength="64" required />
      <${Field} label="Public key" name="key" maxlength="32000" placeholder="ssh-ed25519 AAAA… you@laptop" required hint="One line, as in a .pub file." />
    <//>`;
}
