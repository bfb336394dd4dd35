// Rented GPUs with SSH, and the keys that open them.
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Choice } from "../parts/choice.ts";
import { Field, Form } from "../parts/form.ts";
import { SshKeys } from "../parts/ssh-keys.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

interface Container {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly start_ts: number;
  readonly ip: string | null;
  readonly ssh_port: number | null;
  readonly gpu_config: string;
  readonly price_per_hour: number;
  readonly container_image: string;
  readonly fail_reason: string | null;
}

interface Offer {
  readonly gpu_config: string;
  readonly usd_per_hour: number;
  readonly available: boolean;
}

const states = [
  ["", "those that run or start"],
  ["inactive", "failed and deleted ones"],
] as const;

export function Containers(): View {
  const api = useApi();
  const [state, setState] = useFilter("state");
  const containers = useLoaded(
    () => api.call<readonly Container[]>("GET", `/v1/containers?${new URLSearchParams({ state: state || "active" })}`),
    [api, state],
    5000,
  );
  const columns: readonly Column<Container>[] = [
    { name: "Container", value: (one) => one.name, show: (one) => html`${one.name}<br /><code>${one.id}</code>` },
    { name: "State", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Log in", value: loginOf, show: (one) => html`<code class="command">${loginOf(one)}</code>` },
    { name: "GPUs", value: (one) => one.gpu_config.replace("x", " × ") },
    { name: "Image", value: (one) => one.container_image },
    { name: "Per hour", value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
    { name: "Why", value: (one) => one.fail_reason ?? "" },
    { name: "Made", value: (one) => one.start_ts, show: (one) => html`<${Ago} at=${one.start_ts} />` },
    {
      name: "",
      value: () => null,
      show: (one) =>
        one.state !== "deleted" &&
        html`<${Act} label="Delete" command=${`stoker container delete ${one.id}`}
          sure=${`Delete ${one.name}? Everything in it is lost, and its cost ends.`}
          onAct=${async () => {
            await api.call("DELETE", `/v1/containers/${encodeURIComponent(one.id)}`);
            await containers.reload();
          }} />`,
    },
  ];
  return html`<div class="bar"><${Choice} label="Show" value=${state} options=${states} onChoice=${setState} /></div>
    ${shown(
      containers,
      (rows) => html`<${Table} name="containers" rows=${rows} columns=${columns} keyOf=${(one: Container) => one.id}
        empty="None. A container is a machine with whole GPUs, entered by SSH and billed by the minute: rent one below." />`,
    )}
    <h2>Rent one</h2><${Renting} onRented=${containers.reload} />
    <h2>SSH keys</h2><${SshKeys} />`;
}

const loginOf = ({ ip, ssh_port: port }: Container): string => (ip && port ? `ssh -p ${port} ubuntu@${ip}` : "");

/** What a first start does where nothing was asked for: the server wants a script. */
const nothing = "#cloud-config\n";

function Renting({ onRented }: { onRented: () => Promise<void> }): View {
  const api = useApi();
  const offered = useLoaded(async () => {
    const [params, { gpus }] = await Promise.all([
      api.call<{ readonly container_images: readonly string[] }>("GET", "/v1/containers/params"),
      api.call<{ readonly gpus: readonly Offer[] }>("GET", "/v1/containers/gpu_availability"),
    ]);
    return { images: params.container_images, gpus };
  }, [api]);
  const rent = async ({ name, gpus, image, script = "" }: Readonly<Record<string, string>>) => {
    const body = {
      name,
      gpu_config: gpus,
      container_image: image,
      cloud_init_user_data: script.trim() === "" ? nothing : script,
    };
    await api.call("POST", "/v1/containers", body);
    await onRented();
  };
  return shown(offered, ({ images, gpus }) =>
    images.length === 0 || gpus.length === 0
      ? html`<p>None can be rented: no host of this installation offers ${gpus.length === 0 ? "GPUs" : "images"} for containers. Ask the operator for one.</p>`
      : html`<${Form} act="Rent it" done="It starts." onSend=${rent}>
        <${Field} label="Name of the container" name="name" maxlength="64" required />
        <label>GPUs<select name="gpus">${gpus.map(
          (one) =>
            html`<option value=${one.gpu_config}>${one.gpu_config.replace("x", " × ")}, ${usd(one.usd_per_hour)} per hour${one.available ? "" : ", none free now"}</option>`,
        )}</select></label>
        <label>Image<select name="image">${images.map((one) => html`<option>${one}</option>`)}</select></label>
        <label>Script of its first start<textarea name="script" rows="3" maxlength="32000" placeholder="#!/bin/sh"></textarea>
          <small>Begins with #! or #cloud-config; may be empty. Your SSH keys are let in by themselves.</small></label>
      <//>`,
  );
}
