// Form for a deployment, with a check of fit and price.

import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import type { Deployment } from "../deployment.ts";
import { bytes, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Field, type Fields, Form } from "../parts/controls.ts";
import { go } from "../place.ts";

type Offer = Responses["GET /deploy/llm/gpu_availability"]["gpus"][number];

type Fit = Responses["POST /deploy/llm/placement"];

export function NewDeployment(): View {
  const api = useApi();
  const [repo, setRepo] = useState("");
  // Kept here, because the list reloads when the weights change.
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const [fit, setFit] = useState<Fit | undefined>(undefined);
  const query = repo === "" ? "" : `?${new URLSearchParams({ source: repo })}`;
  const offers = useGet<{ readonly gpus: readonly Offer[] }>(`/deploy/llm/gpu_availability${query}`);

  const deploy = async (fields: Fields) => {
    const {
      name,
      weights = "",
      revision = "",
      token = "",
      config = "",
      batch,
      min,
      max,
      idle = "",
      args = "",
      check,
    } = fields;
    if (config === "") throw new Error("The GPU list is still loading. Choose a GPU, then try again.");
    const [numGpus = "1", gpu] = config.split(/x(.*)/s);
    const request = {
      model_name: name,
      gpu,
      num_gpus: Number(numGpus),
      max_batch_size: Number(batch),
      ...(weights === "" ? {} : { hf: { repo: weights, revision: revision || null, token: token || null } }),
      settings: {
        min_instances: Number(min),
        max_instances: Number(max),
        inactive_shutdown: idle === "" ? null : Number(idle),
      },
      ...(args.trim() === "" ? {} : { extra_args: args.trim().split(/\s+/) }),
    };
    setFit(undefined);
    if (check === "on") {
      setFit(await api.call<Fit>("POST", "/deploy/llm/placement", request));
      return;
    }
    const created = await api.call<Deployment>("POST", "/deploy/llm", request);
    go(`/deployments/${created.deploy_id}`);
  };

  return html`<${Form} act="Deploy" onSend=${deploy}>
    <${Field} label="Model name" name="name" maxlength="256" placeholder="you/model" required
      hint="Requests use this name. It must start with your account name." />
    <${Field} label="Weights (hub repository)" name="weights" maxlength="256" placeholder="model name"
      onChange=${(event: { currentTarget: HTMLInputElement }) => setRepo(event.currentTarget.value.trim())}
      hint="Sets which GPUs below have enough memory." />
    <details><summary>Hub revision and token</summary>
      <${Field} label="Branch, tag or commit" name="revision" maxlength="256" />
      <${Field} label="Token, for a gated repository" name="token" type="password" autocomplete="off" maxlength="256" />
    </details>
    <fieldset><legend>GPUs per instance</legend>
    ${shown(offers, ({ gpus: list }) =>
      list.length === 0
        ? html`<p>No host with a GPU has joined.</p>
          <label class="check"><input type="radio" name="config" value="1xother" defaultChecked required /> Any host</label>`
        : list.map(
            (
              offer,
            ) => html`<label class="check"><input type="radio" name="config" value=${offer.gpu_config} checked=${offer === selected(list, chosen)}
                onChange=${() => setChosen(offer.gpu_config)} required />
              ${" "}${offer.gpu_config.replace("x", " × ")}, ${usd(offer.usd_per_hour)} per hour,${" "}
              ${offer.available ? "● available" : "○ unavailable now, would wait"}${repo !== "" && (offer.recommended ? ", ● enough memory" : ", ✕ may not have enough memory")}</label>`,
          ),
    )}
    </fieldset>
    <${Field} label="Concurrent requests per instance" name="batch" type="number" min="1" max="256" value="8" required />
    <${Field} label="Minimum instances" name="min" type="number" min="0" max="1000" value="1" required />
    <${Field} label="Maximum instances" name="max" type="number" min="1" max="1000" value="1" required />
    <${Field} label="Scale to zero after (seconds without requests)" name="idle" type="number" min="60" placeholder="never"
      hint="Requires a minimum of 0." />
    <${Field} label="Engine arguments" name="args" placeholder="--max-model-len 8192" />
    <p><button class="second" name="check" value="on">Check fit and price</button></p>
    ${fit && html`<${FitReport} fit=${fit} />`}
  <//>`;
}

function FitReport({ fit }: { fit: Fit }): View {
  const needs = fit.memory_bytes > 0 ? `${bytes(fit.memory_bytes)} of memory` : "an unknown amount of memory";
  return html`<div role="status">
    <p>${fit.fits ? "● Fits" : "✕ Does not fit now"}: needs ${needs} on ${fit.engine}, ${usd(fit.usd_per_hour)} per instance and hour.</p>
    ${fit.refused.length > 0 && html`<ul>${fit.refused.map(({ host, why }) => html`<li><b>${host}</b>: ${why}</li>`)}</ul>`}
  </div>`;
}

/** The chosen offer while it exists, otherwise the cheapest available one with enough memory, otherwise the first. */
function selected(list: readonly Offer[], chosen: string | undefined): Offer | undefined {
  const price = (offer: Offer) => (offer.available ? 0 : 1e9) + (offer.recommended ? 0 : 1e6) + offer.usd_per_hour;
  const best = (before: Offer | undefined, offer: Offer) => (before && price(before) <= price(offer) ? before : offer);
  return list.find((offer) => offer.gpu_config === chosen) ?? list.reduce(best, undefined as Offer | undefined);
}
