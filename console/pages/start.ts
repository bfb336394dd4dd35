// First request: key, model, playground and code snippet.
import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import type { Message } from "../chat.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { type ModelSummary, takesChats, usableModels } from "../models.ts";
import { Code } from "../parts/controls.ts";
import { Playground } from "../parts/playground.ts";
import { useFilter } from "../place.ts";
import { type Language, snippets } from "../snippets.ts";
import { serverUrl, useVisitor } from "../visitor.ts";

const languages = Object.keys(snippets) as Language[];

export function Start(): View {
  const api = useApi();
  const models = useLoaded(async () => (await usableModels(api)).filter(takesChats), [api]);
  return html`<${NewKey} />${shown(models, (list) =>
    list.length === 0
      ? html`<p>No chat model available. <a href="/console/deployments/new">Deploy one</a>, or ask the operator.</p>`
      : html`<${FirstCall} models=${list} />`,
  )}`;
}

function NewKey(): View {
  const { newKey } = useVisitor();
  if (newKey === undefined)
    return html`<p>Programs need an API key: <a href="/console/keys">create one</a> and store it in
      <code>STOKER_API_KEY</code>. The playground below needs no key.</p>`;
  return html`<section class="key" aria-label="Your API key">
    <p><strong>Your API key.</strong> It is shown only once. Copy it now.</p>
    <${Code} text=${newKey} />
  </section>`;
}

function FirstCall({ models }: { models: readonly ModelSummary[] }): View {
  const { newKey } = useVisitor();
  const [name, setModel] = useFilter("model");
  const [chosen, setLanguage] = useFilter("language");
  const [messages, setMessages] = useState<readonly Message[]>([
    { role: "user", content: "Say hello in one sentence." },
  ]);
  const [options, setOptions] = useState({ max_tokens: 256, temperature: 0.7 });
  const model = models.find((one) => one.model_name === name) ?? (models[0] as ModelSummary);
  const language = languages.find((one) => one === chosen) ?? "curl";
  const request = { model: model.model_name, messages, ...options };

  return html`
    <p><label>Model <select value=${model.model_name} onChange=${(event: { currentTarget: HTMLSelectElement }) =>
      setModel(event.currentTarget.value)}>${models.map(
      (one) => html`<option value=${one.model_name}>${one.model_name}</option>`,
    )}</select></label> <span class="quiet">${model.pricing.short}</span></p>
    <h2>Playground</h2>
    <${Playground} request=${request} onSend=${setMessages} onOptions=${setOptions} />
    <h2>Code</h2>
    <p role="group" aria-label="Language">${languages.map(
      (one) => html`<button type="button" class="second small" aria-pressed=${one === language}
        onClick=${() => setLanguage(one)}>${one}</button> `,
    )}</p>
    <${Code} text=${snippets[language]({ url: serverUrl(), key: newKey, request })} />`;
}
