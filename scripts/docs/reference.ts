// The API reference: one page per tag of the OpenAPI document.
import GithubSlugger from "github-slugger";
import { examplesOf } from "./examples.ts";
import { codeBlock, escapeHtml, type Heading, inline, type Passage, type RenderedPage } from "./markdown.ts";
import type { Api, Operation, Schema } from "./openapi-types.ts";

export interface ReferencePage extends RenderedPage {
  readonly path: string;
}

interface Field {
  readonly name: string;
  readonly isRequired: boolean;
  readonly schema: Schema;
}

/** Fields of objects inside objects are listed this deep. */
const maxDepth = 3;

export function referencePages(api: Api): readonly ReferencePage[] {
  const all = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  return api.tags.map(({ name, description }) => {
    const slugger = new GithubSlugger();
    const title = titles[name] ?? name.charAt(0).toUpperCase() + name.slice(1);
    const parts = all
      .filter(({ operation }) => operation.tags?.[0] === name)
      .map(({ path, method, operation }) => {
        const label = `${method.toUpperCase()} ${path}`;
        const heading: Heading = { level: 2, id: slugger.slug(label), text: operation.summary };
        const html = operationHtml(api, { path, method, operation }, heading.id);
        return { html, passage: { heading, text: `${label} ${operation.description ?? ""}` } };
      });
    const first: Passage = { heading: { level: 1, id: "", text: title }, text: description };
    return {
      path: `reference/${slugger.slug(name)}`,
      title,
      html: [
        `<h1>${escapeHtml(title)}</h1>\n<p>${inline(description)}.</p>\n`,
        `<p class="muted">Examples read the address of the server from <code>STOKER_HOST</code> and your key from `,
        `<code>STOKER_API_KEY</code>. Words in capitals stand for your values.</p>\n`,
        ...parts.map(({ html }) => html),
      ].join(""),
      passages: [first, ...parts.map(({ passage }) => passage)],
      links: [],
    };
  });
}

/** Names of tags that are not written like a sentence. */
const titles: Readonly<Record<string, string>> = { lora: "LoRA adapters", "gpu pool": "GPU limits" };

interface Described {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

function operationHtml(api: Api, { path, method, operation }: Described, id: string): string {
  const parameters = (operation.parameters ?? []).map((one) => ({
    name: one.name,
    isRequired: one.required ?? false,
    schema: { ...one.schema, description: one.schema.description ?? one.description ?? "" },
    where: one.in,
  }));
  const ofPlace = (where: string) => parameters.filter((one) => one.where === where);
  const [type = "", body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const answer = operation.responses["200"]?.content?.["application/json"];
  const examples = examplesOf(method, path, operation).map(
    ({ language, label, code }) => `<div data-label="${label}">${codeBlock(code, language)}</div>`,
  );
  return [
    `<section class="operation">\n<h2 id="${id}">${escapeHtml(operation.summary)}`,
    `<a class="anchor" href="#${id}" aria-label="Link to this operation">#</a></h2>\n`,
    `<p class="call"><span class="method ${method}">${method.toUpperCase()}</span> <code>${escapeHtml(path)}</code></p>\n`,
    operation.description ? `<p>${inline(operation.description)}</p>\n` : "",
    table("Path", ofPlace("path")),
    table("Query", ofPlace("query")),
    table("Headers", ofPlace("header")),
    table(`Body (${type})`, fieldsOf(api, body?.schema)),
    `<div class="tabs">${examples.join("")}</div>\n`,
    table("Response", fieldsOf(api, answer?.schema)),
    answer?.example === undefined ? "" : codeBlock(JSON.stringify(answer.example, null, 2), "json"),
    errorsHtml(operation),
    "</section>\n",
  ].join("");
}

function errorsHtml({ responses }: Operation): string {
  const errors = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  if (errors.length === 0) return "";
  const rows = errors.map(
    ([status, { description }]) => `<tr><td><code>${status}</code></td><td>${inline(description)}</td></tr>`,
  );
  return `<details><summary>Errors: ${errors.map(([status]) => status).join(", ")}</summary><table>${rows.join("")}</table></details>\n`;
}

function table(title: string, fields: readonly Field[]): string {
  if (fields.length === 0) return "";
  const rows = fields.map(({ name, isRequired, schema }) => {
    const notes = [boundsOf(schema), schema.description && inline(schema.description)].filter(Boolean).join(". ");
    const needed = isRequired ? ' <span class="needed">required</span>' : "";
    return `<tr><td><code>${escapeHtml(name)}</code>${needed}</td><td>${typeHtml(schema)}</td><td>${notes}</td></tr>\n`;
  });
  const head = "<thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead>";
  return `<h3>${title}</h3>\n<div class="table" role="region" aria-label="${title}" tabindex="0"><table>${head}<tbody>\n${rows.join("")}</tbody></table></div>\n`;
}

/** Fields of nested objects have the names of their parents before theirs: `choices[].index`. */
function fieldsOf(api: Api, schema: Schema | undefined, prefix = "", depth = 0): readonly Field[] {
  const { schema: object, suffix } = objectIn(api, schema);
  if (!object) return [];
  return Object.entries(object.properties ?? {}).flatMap(([name, inner]) => {
    const whole = prefix + suffix + (prefix + suffix === "" ? "" : ".") + name;
    const own: Field = {
      name: whole,
      isRequired: object.required?.includes(name) ?? false,
      schema: resolve(api, inner),
    };
    return depth + 1 < maxDepth ? [own, ...fieldsOf(api, inner, whole, depth + 1)] : [own];
  });
}

/** The object that the schema describes, in lists and in unions with null too. */
function objectIn(
  api: Api,
  given: Schema | undefined,
): { readonly schema: Schema | undefined; readonly suffix: string } {
  const schema = given && resolve(api, given);
  if (!schema || schema.properties) return { schema, suffix: "" };
  if (schema.items) {
    const inner = objectIn(api, schema.items);
    return { schema: inner.schema, suffix: `[]${inner.suffix}` };
  }
  const options = (schema.anyOf ?? schema.oneOf ?? []).filter((one) => resolve(api, one).properties);
  return options.length === 1 ? objectIn(api, options[0]) : { schema: undefined, suffix: "" };
}

function resolve(api: Api, schema: Schema): Schema {
  const name = schema.$ref?.replace("#/components/schemas/", "");
  return name === undefined ? schema : (api.components.schemas[name] ?? schema);
}

/** A long list of values is folded. */
function typeHtml(schema: Schema): string {
  const type = escapeHtml(typeOf(schema));
  const { length = 0 } = schema.enum ?? schema.anyOf ?? [];
  return length <= 12 ? type : `<details><summary>one of ${length} values</summary>${type}</details>`;
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return [...new Set(options.map(typeOf))].join(" | ");
  if (schema.items) return `list of ${typeOf(schema.items)}`;
  return [schema.type ?? "any"].flat().join(" | ");
}

const bounds = [
  ["minimum", "at least"],
  ["exclusiveMinimum", "above"],
  ["maximum", "at most"],
  ["exclusiveMaximum", "below"],
  ["minItems", "items at least"],
  ["maxItems", "items at most"],
  ["maxLength", "length at most"],
  ["default", "default"],
] as const;

function boundsOf(schema: Schema): string {
  const found = bounds.filter(([key]) => schema[key] !== undefined && schema[key] !== null);
  const text = found.map(([key, words]) => `${words} ${JSON.stringify(schema[key])}`).join(", ");
  return escapeHtml(text.charAt(0).toUpperCase() + text.slice(1));
}
