// The script of /docs, for browsers: shows /openapi.json.
const node = (tag, text, cls) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};
const typeOf = (s) => {
  if (!s) return "";
  if (s.const !== undefined) return JSON.stringify(s.const);
  if (s.enum) return s.enum.map((v) => JSON.stringify(v)).join(" | ");
  const many = s.anyOf ?? s.oneOf;
  if (many) return many.map(typeOf).join(" | ");
  const type = [s.type ?? "any"].flat().join(" | ");
  return s.items ? `${type} of ${typeOf(s.items)}` : type;
};
const boundsOf = (s) =>
  [
    ["minimum", "≥"],
    ["exclusiveMinimum", ">"],
    ["maximum", "≤"],
    ["exclusiveMaximum", "<"],
    ["maxItems", "items ≤"],
    ["minItems", "items ≥"],
    ["maxLength", "length ≤"],
    ["default", "default"],
  ]
    .filter(([key]) => s[key] !== undefined)
    .map(([key, word]) => `${word} ${JSON.stringify(s[key])}`)
    .join(", ");
const table = (rows) => {
  const t = node("table");
  for (const [name, schema, required] of rows) {
    const tr = node("tr");
    const first = node("td");
    first.append(node("code", name), required ? " *" : "");
    tr.append(first, node("td", typeOf(schema)));
    tr.append(node("td", [boundsOf(schema), schema.description].filter(Boolean).join(". "), "muted"));
    t.append(tr);
  }
  return t;
};
const fields = (schema) =>
  Object.entries(schema?.properties ?? {}).map(([k, s]) => [k, s, schema.required?.includes(k)]);
const block = (title, rows) => (rows.length ? [node("h4", title), table(rows)] : []);
const shown = (title, text) => (text === undefined ? [] : [node("h4", title), node("pre", text)]);
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const curl = (method, path, op) => {
  const [type, media] = Object.entries(op.requestBody?.content ?? {})[0] ?? [];
  if (media?.example === undefined) return undefined;
  const parts =
    type === "multipart/form-data"
      ? Object.entries(media.example).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`)
      : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(media.example))}`];
  const key = op.security?.length ? ["-H 'Authorization: Bearer KEY'"] : [];
  return [`curl -X ${method.toUpperCase()} ${quoted(location.origin + path)}`, ...key, ...parts].join(" \\\n  ");
};
const operation = (path, method, op) => {
  const d = node("details");
  const s = node("summary");
  s.append(node("span", method.toUpperCase(), "method"), node("code", path), " ", node("span", op.summary, "muted"));
  d.append(s);
  d.append(
    ...block(
      "Parameters",
      (op.parameters ?? []).map((p) => [
        `${p.in} ${p.name}`,
        { ...p.schema, description: p.schema?.description ?? p.description },
        p.required,
      ]),
    ),
  );
  const [first] = Object.values(op.requestBody?.content ?? {});
  d.append(...block(`Body: ${Object.keys(op.requestBody?.content ?? {}).join(" or ")}`, fields(first?.schema)));
  d.append(...shown("For example", curl(method, path, op)));
  const ok = op.responses?.["200"]?.content?.["application/json"];
  d.append(...block("Answer", fields(ok?.schema?.items ?? ok?.schema)));
  d.append(...shown("For example", ok?.example && JSON.stringify(ok.example, null, 2)));
  d.append(
    node(
      "p",
      `Refusals: ${Object.keys(op.responses ?? {})
        .filter((c) => c !== "200")
        .join(", ")}`,
      "muted",
    ),
  );
  return d;
};
const show = (api) => {
  const main = document.getElementById("operations");
  main.textContent = "";
  main.append(
    ...api.info.description
      .split("\n")
      .filter(Boolean)
      .map((line) => node("p", line, "muted")),
  );
  const byTag = new Map(api.tags.map((t) => [t.name, { ...t, list: [] }]));
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, op] of Object.entries(methods)) {
      const name = op.tags?.[0] ?? "other";
      if (!byTag.has(name)) byTag.set(name, { name, description: "", list: [] });
      byTag.get(name).list.push([path, method, op]);
    }
  for (const tag of byTag.values()) {
    if (!tag.list.length) continue;
    main.append(node("h2", tag.name), node("p", tag.description, "muted"), ...tag.list.map((one) => operation(...one)));
  }
};
fetch("/openapi.json")
  .then((r) => r.json())
  .then(show)
  .catch((error) => {
    document.getElementById("operations").textContent =
      `The description could not be shown: ${error}. Load the page again.`;
  });
