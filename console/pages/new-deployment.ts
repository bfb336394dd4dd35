// Which model on which GPUs: what fits and what it costs is said before anything is paid.
import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import type { Deployment } from "../deployment.ts";
import { bytes, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Field, Form } from "../parts/form.ts";
import { go } from "../place.ts";

interface Offer {
  readonly gpu_config: string;
  readonly usd_per_hour: number;
  readonly available: boolean;
  readonly recommended: boolean;
}

interface Fit {
  readonly fits: boolean;
  readonly refused: readonly { readonly host: string; readonly why: string }[];
  readonly engine: string;
  readonly memory_bytes: number;
  readonly usd_per_hour: number;
}

export function NewDeployment(): View {
  const api = useApi();
  const [repo, setRepo] = useState("");
  // Kept here, because the list is drawn anew for other weights.
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const [fit, setFit] = useState<Fit | undefined>(undefined);
  const offers = useLoaded(async () => {
    const query = repo === "" ? "" : `?${new URLSearchParams({ source: repo })}`;
    return (await api.call<{ readonly gpus: readonly Offer[] }>("GET", `/deploy/llm/gpu_availability${query}`)).gpus;
  }, [api, repo]);

  const deploy = async (fields: Readonly<Record<string, string>>) => {
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
    if (config === "") throw new Error("The GPUs are still being listed: choose one of them, then send it again.");
    const [numGpus = "1", gpu] = config.split(/x(.*)/s);
    const wish = {
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
      setFit(await api.call<Fit>("POST", "/deploy/llm/placement", wish));
      return;
    }
    const made = await api.call<Deployment>("POST", "/deploy/llm", wish);
    go(`/deployments/${made.deploy_id}`);
  };

  return html`<${Form} act="Deploy" onSend=${deploy}>
    <${Field} label="Name of the model" name="name" maxlength="256" placeholder="you/model" required
      hint="Programs ask for it under this name, which begins with your account's." />
    <${Field} label="Weights: repository on the hub" name="weights" maxlength="256" placeholder="as the name"
      onChange=${(event: { currentTarget: HTMLInputElement }) => setRepo(event.currentTarget.value.trim())}
      hint="Which GPUs hold it is said below, once its size is known." />
    <details><summary>Revision and token of the hub</summary>
      <${Field} label="Branch, tag or commit" name="revision" maxlength="256" />
      <${Field} label="Token, for a repository with a gate" name="token" type="password" autocomplete="off" maxlength="256" />
    </details>
    <fieldset><legend>GPUs of one instance</legend>
    ${shown(offers, (list) =>
      list.length === 0
        ? html`<p>No host with a GPU has joined this installation, so none can be chosen.</p>
          <label class="check"><input type="radio" name="config" value="1xother" defaultChecked required /> Whatever there is</label>`
        : list.map(
            (
              offer,
            ) => html`<label class="check"><input type="radio" name="config" value=${offer.gpu_config} checked=${offer === selected(list, chosen)}
                onChange=${() => setChosen(offer.gpu_config)} required />
              ${" "}${offer.gpu_config.replace("x", " × ")}, ${usd(offer.usd_per_hour)} per hour,${" "}
              ${offer.available ? "● free now" : "○ none free now: it would wait"}${repo !== "" && (offer.recommended ? ", ● holds the model" : ", ✕ not known to hold the model")}</label>`,
          ),
    )}
    </fieldset>
    <${Field} label="Requests at once per instance" name="batch" type="number" min="1" max="256" value="8" required />
    <${Field} label="At least, instances" name="min" type="number" min="0" max="1000" value="1" required />
    <${Field} label="At most, instances" name="max" type="number" min="1" max="1000" value="1" required />
    <${Field} label="Seconds without a request until the last one ends" name="idle" type="number" min="60" placeholder="never"
      hint="Only where the least number of instances is 0." />
    <${Field} label="Arguments for the engine" name="args" placeholder="--max-model-len 8192" />
    <p><button class="second" name="check" value="on">Only check whether it fits</button></p>
    ${fit && html`<${FitReport} fit=${fit} />`}
  <//>`;
}

function FitReport({ fit }: { fit: Fit }): View {
  const needs = fit.memory_bytes > 0 ? `${bytes(fit.memory_bytes)} of memory` : "memory that is not known beforehand";
  return html`<div role="status">
    <p>${fit.fits ? "● It fits now" : "✕ It fits nowhere now"}: it needs ${needs} and runs on ${fit.engine}, ${usd(fit.usd_per_hour)} per hour of an instance.</p>
    ${fit.refused.length > 0 && html`<ul>${fit.refused.map(({ host, why }) => html`<li><b>${host}</b>: ${why}</li>`)}</ul>`}
  </div>`;
}

/** What was chosen, as long as it is offered; else the cheapest that holds the model and is free; else the first. */
function selected(list: readonly Offer[], chosen: string | undefined): Offer | undefined {
  const price = (offer: Offer) => (offer.available ? 0 : 1e9) + (offer.recommended ? 0 : 1e6) + offer.usd_per_hour;
  const best = (before: Offer | undefined, offer: Offer) => (before && price(before) <= price(offer) ? before : offer);
  return list.find((offer) => offer.gpu_config === chosen) ?? list.reduce(best, undefined as Offer | undefined);
}
