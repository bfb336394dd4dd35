// One call of an operation as a line for a shell, as Python and as TypeScript. Each reads address and key from the environment, so that it
// runs as it stands.
import type { Operation, Parameter } from "./openapi-types.ts";

export interface Example {
  readonly language: "bash" | "python" | "typescript";
  readonly label: string;
  readonly code: string;
}

/** What a request sends. */
interface Call {
  readonly method: string;
  /** With values for its parameters. */
  readonly path: string;
  readonly hasKey: boolean;
  readonly body: { readonly kind: "json" | "form"; readonly value: unknown } | undefined;
  readonly isDownload: boolean;
}

export function examplesOf(method: string, path: string, operation: Operation): readonly Example[] {
  const call = callOf(method, path, operation);
  return [
    { language: "bash", label: "curl", code: curl(call) },
    { language: "python", label: "Python", code: python(call) },
    { language: "typescript", label: "TypeScript", code: typescript(call) },
  ];
}

function callOf(method: string, path: string, operation: Operation): Call {
  const [type = "", media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const parameters = operation.parameters ?? [];
  const needed = parameters.filter((one) => one.in === "query" && one.required);
  const query = needed.map((one) => `${one.name}=${encodeURIComponent(exampleOf(one))}`).join("&");
  const [answer] = Object.values(operation.responses["200"]?.content ?? {});
  return {
    method: method.toUpperCase(),
    path: path.replaceAll(/\{(\w+)\}/g, (_, name) => nameOf(name)) + (query && `?${query}`),
    hasKey: (operation.security ?? []).length > 0,
    body:
      media?.example === undefined
        ? undefined
        : { kind: type === "multipart/form-data" ? "form" : "json", value: media.example },
    isDownload: answer?.schema?.["contentMediaType"] !== undefined,
  };
}

/** Words that a reader replaces are in capitals. Names of models and adapters contain a slash. */
function nameOf(parameter: string): string {
  if (/model_name$/.test(parameter) || parameter === "lora_name") return "OWNER/NAME";
  return parameter.toUpperCase();
}

function exampleOf({ name, schema }: Parameter): string {
  const value = schema.const ?? schema["default"] ?? schema.enum?.[0] ?? schema["minimum"];
  return value === undefined ? name.toUpperCase() : String(value);
}

const isFile = (value: unknown): value is string => typeof value === "string" && value.startsWith("@");
const fieldsOf = (value: unknown) => Object.entries(value as Record<string, unknown>);
const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

function curl({ method, path, hasKey, body, isDownload }: Call): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"$STOKER_HOST${path}"`];
  if (hasKey) lines.push('-H "Authorization: Bearer $STOKER_API_KEY"');
  if (body?.kind === "json")
    lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body.value))}`);
  if (body?.kind === "form")
    lines.push(...fieldsOf(body.value).map(([name, value]) => `-F ${quoted(`${name}=${asText(value)}`)}`));
  if (isDownload) lines.push("-o OUTPUT");
  return lines.join(" \\\n  ");
}

function python({ method, path, hasKey, body, isDownload }: Call): string {
  const lines = ["import os", "import requests", "", `response = requests.${method.toLowerCase()}(`];
  lines.push(`    os.environ["STOKER_HOST"] + ${JSON.stringify(path)},`);
  if (hasKey) lines.push(`    headers={"Authorization": "Bearer " + os.environ["STOKER_API_KEY"]},`);
  if (body?.kind === "json") lines.push(`    json=${pythonValue(body.value, 1)},`);
  if (body?.kind === "form") {
    const part = (value: unknown) =>
      isFile(value) ? `open(${JSON.stringify(value.slice(1))}, "rb")` : `(None, ${JSON.stringify(asText(value))})`;
    const parts = fieldsOf(body.value).map(([name, value]) => `        ${JSON.stringify(name)}: ${part(value)},`);
    lines.push("    files={", ...parts, "    },");
  }
  lines.push(")", "response.raise_for_status()");
  lines.push(isDownload ? 'open("OUTPUT", "wb").write(response.content)' : "print(response.text)");
  return lines.join("\n");
}

function pythonValue(value: unknown, depth: number): string {
  const pad = "    ".repeat(depth);
  const list = (items: readonly string[], open: string, close: string) => {
    const short = `${open}${items.join(", ")}${close}`;
    if (short.length + pad.length <= 88 && !short.includes("\n")) return short;
    return `${open}\n${items.map((item) => `${pad}    ${item},\n`).join("")}${pad}${close}`;
  };
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value))
    return list(
      value.map((item) => pythonValue(item, depth + 1)),
      "[",
      "]",
    );
  if (typeof value !== "object") return JSON.stringify(value);
  return list(
    fieldsOf(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonValue(item, depth + 1)}`),
    "{",
    "}",
  );
}

function typescript({ method, path, hasKey, body, isDownload }: Call): string {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: part of the example
  const key = hasKey ? "Authorization: `Bearer ${process.env.STOKER_API_KEY}`" : "";
  const headers = [key, body?.kind === "json" ? '"Content-Type": "application/json"' : ""].filter(Boolean);
  const options: string[] = [];
  if (method !== "GET") options.push(`  method: "${method}",`);
  if (headers.length > 0) options.push(`  headers: { ${headers.join(", ")} },`);
  if (body?.kind === "json")
    options.push(`  body: JSON.stringify(${JSON.stringify(body.value, null, 2).replaceAll("\n", "\n  ")}),`);
  const before: string[] = [];
  if (body?.kind === "form") {
    const fields = fieldsOf(body.value);
    if (fields.some(([, value]) => isFile(value))) before.push('import { openAsBlob } from "node:fs";', "");
    before.push("const form = new FormData();");
    for (const [name, value] of fields) {
      const file = isFile(value) ? JSON.stringify(value.slice(1)) : undefined;
      const shown = file ? `await openAsBlob(${file}), ${file}` : JSON.stringify(asText(value));
      before.push(`form.append(${JSON.stringify(name)}, ${shown});`);
    }
    options.push("  body: form,");
  }
  const given = options.length > 0 ? `, {\n${options.join("\n")}\n}` : "";
  const lines = [...before, `const response = await fetch(\`\${process.env.STOKER_HOST}${path}\`${given});`];
  lines.push("if (!response.ok) throw new Error(await response.text());");
  if (isDownload) return ['import { writeFile } from "node:fs/promises";', ...lines, writeLine].join("\n");
  return [...lines, "console.log(await response.text());"].join("\n");
}
const writeLine = 'await writeFile("OUTPUT", new Uint8Array(await response.arrayBuffer()));';
