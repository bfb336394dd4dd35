// The Prometheus text format, as far as a page is passed on with more labels: families with their samples, values untouched.

export interface Sample {
  readonly name: string;
  /** Text between the braces, unchanged; empty without braces. */
  readonly labels: string;
  /** Value and, where there is one, time stamp. */
  readonly value: string;
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: readonly Sample[];
}

// A label value may hold braces and escaped quotes.
const sampleLine = /^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S.*)$/;
const suffixes = /_(?:bucket|sum|count|total|created)$/;

/** Lines that are none of the format are left out. */
export function parseMetrics(page: string): readonly Family[] {
  const families = new Map<string, { name: string; help: string; type: string; samples: Sample[] }>();
  const family = (name: string) => {
    let found = families.get(name);
    if (!found) {
      found = { name, help: "", type: "untyped", samples: [] };
      families.set(name, found);
    }
    return found;
  };
  for (const line of page.split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line);
    if (comment) {
      const [, what, name = "", text = ""] = comment;
      if (what === "HELP") family(name).help = text;
      else family(name).type = text.trim();
      continue;
    }
    const sample = sampleLine.exec(line);
    if (!sample) continue;
    const [, name = "", labels = "", value = ""] = sample;
    const base = name.replace(suffixes, "");
    family(families.has(name) || !families.has(base) ? name : base).samples.push({ name, labels, value: value.trim() });
  }
  return [...families.values()].filter(({ samples }) => samples.length > 0);
}

export function renderFamilies(families: readonly Family[]): string {
  return families
    .map(({ name, help, type, samples }) =>
      [
        ...(help === "" ? [] : [`# HELP ${name} ${help}`]),
        `# TYPE ${name} ${type}`,
        ...samples.map(({ name, labels, value }) =>
          labels === "" ? `${name} ${value}` : `${name}{${labels}} ${value}`,
        ),
        "",
      ].join("\n"),
    )
    .join("");
}

/** `{a: "b"}` as `a="b"`, escaped. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${value.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`)
    .join(",");
}
