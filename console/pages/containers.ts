// Rented GPU containers and SSH keys.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet, useLoaded } from "../loaded.ts";
import { Act, Ago, Choice, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

type Container = Responses["GET /v1/containers/{container_id}"];

type Offer = Responses["GET /v1/containers/gpu_availability"]["gpus"][number];

const states = [
  ["", "active"],
  ["inactive", "failed and deleted"],
] as const;

export function Containers(): View {
  const api = useApi();
  const [state, setState] = useFilter("state");
  const query = new URLSearchParams({ state: state || "active" });
  const containers = useGet<readonly Container[]>(`/v1/containers?${query}`, 5000);
  const columns: readonly Column<Container>[] = [
    { name: "Container", value: (one) => one.name, show: (one) => html`${one.name}<br /><code>${one.id}</code>` },
    { name: "Status", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Log in", value: loginOf, show: (one) => html`<code class="command">${loginOf(one)}</code>` },
    { name: "GPUs", value: (one) => one.gpu_config.replace("x", " × ") },
    { name: "Image", value: (one) => one.container_image },
    { name: "Per hour", value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
    { name: "Reason", value: (one) => one.fail_reason ?? "" },
    { name: "Created", value: (one) => one.start_ts, show: (one) => html`<${Ago} at=${one.start_ts} />` },
    actions(
      (one) =>
        one.state !== "deleted" &&
        html`<${Act} label="Delete" command=${`stoker container delete ${one.id}`}
          sure=${`Delete ${one.name} and all its data? This cannot be undone.`}
          onAct=${() => containers.after(api.call("DELETE", `/v1/containers/${encodeURIComponent(one.id)}`))} />`,
    ),
  ];
  return html`<div class="bar"><${Choice} label="Show" value=${state} options=${states} onChoice=${setState} /></div>
    ${shown(
      containers,
      (rows) => html`<${Table} name="containers" rows=${rows} columns=${columns} keyOf=${(one: Container) => one.id}
        empty="No containers. A container has whole GPUs, SSH access and is billed by the minute." />`,
    )}
    <h2>Create a container</h2><${CreateContainer} onCreated=${containers.reload} />
    <h2>SSH keys</h2><${SshKeys} />`;
}

const loginOf = ({ ip, ssh_port: port }: Container): string => (ip && port ? `ssh -p ${port} ubuntu@${ip}` : "");

/** The API requires a script. */
const emptyScript = "#cloud-config\n";

function CreateContainer({ onCreated }: { onCreated: () => Promise<void> }): View {
  const api = useApi();
  const offered = useLoaded(async () => {
    const [params, { gpus }] = await Promise.all([
      api.call<{ readonly container_images: readonly string[] }>("GET", "/v1/containers/params"),
      api.call<{ readonly gpus: readonly Offer[] }>("GET", "/v1/containers/gpu_availability"),
    ]);
    return { images: params.container_images, gpus };
  }, [api]);
  const create = async ({ name, gpus, image, script = "" }: Fields) => {
    const body = {
      name,
      gpu_config: gpus,
      container_image: image,
      cloud_init_user_data: script.trim() === "" ? emptyScript : script,
    };
    await api.call("POST", "/v1/containers", body);
    await onCreated();
  };
  return shown(offered, ({ images, gpus }) =>
    images.length === 0 || gpus.length === 0
      ? html`<p>No container ${gpus.length === 0 ? "GPUs" : "images"} available. Contact the operator.</p>`
      : html`<${Form} act="Create" done="Starting." onSend=${create}>
        <${Field} label="Container name" name="name" maxlength="64" required />
        <label>GPUs<select name="gpus">${gpus.map(
          (one) =>
            html`<option value=${one.gpu_config}>${one.gpu_config.replace("x", " × ")}, ${usd(one.usd_per_hour)} per hour${one.available ? "" : ", unavailable"}</option>`,
        )}</select></label>
        <label>Image<select name="image">${images.map((one) => html`<option>${one}</option>`)}</select></label>
        <label>Start script<textarea name="script" rows="3" maxlength="32000" placeholder="#!/bin/sh"></textarea>
          <small>Optional. Must start with #! or #cloud-config. Your SSH keys are added automatically.</small></label>
      <//>`,
  );
}

type SshKey = Responses["GET /v1/ssh_keys"][number];

function SshKeys(): View {
  const api = useApi();
  const keys = useGet<readonly SshKey[]>("/v1/ssh_keys");
  const add = ({ name, key }: Fields) => keys.after(api.call("POST", "/v1/ssh_keys", { name, key }));
  return html`${shown(keys, (list) =>
    list.length === 0
      ? html`<p class="quiet">No SSH keys. Add one before you create a container.</p>`
      : html`<ul>${list.map(
          (one) => html`<li key=${one.id}>${one.name} <code>${one.fingerprint}</code> <${Ago} at=${one.created_at} />
            <${Act} label="Delete" sure=${`Delete the key “${one.name}”? Running containers keep it.`} 
              onAct=${() => keys.after(api.call("DELETE", `/v1/ssh_keys/${encodeURIComponent(one.id)}`))} /></li>`,
        )}</ul>`,
  )}
    <${Form} act="Add key" done="Added." onSend=${add}>
      <${Field} label="Key name" name="name" maxlength="64" required />
      <${Field} label="Public key" name="key" maxlength="32000" placeholder="ssh-ed25519 AAAA… you@laptop" required hint="One line, as in a .pub file." />
    <//>`;
}
