// Just enough XML for `nvidia-smi -q -x`: elements, attributes and text. No entities beyond the five, no mixed content.

export interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly Element[];
  readonly text: string;
}

const token =
  /<!--[\s\S]*?-->|<[?!][^>]*>|<\/([\w.:-]+)\s*>|<([\w.:-]+)((?:\s+[\w.:-]+\s*=\s*"[^"]*")*)\s*(\/?)>|[^<]+/g;

interface Open {
  readonly name: string;
  readonly attributes: Record<string, string>;
  readonly children: Element[];
  text: string;
}

/** The root element; undefined when the text is no whole document. */
export function parseXml(xml: string): Element | undefined {
  const top: Open = { name: "", attributes: {}, children: [], text: "" };
  const open = [top];
  for (const [text, closed, opened, attributes = "", isEmpty] of xml.matchAll(token)) {
    const current = open.at(-1) ?? top;
    if (closed !== undefined) {
      if (open.length === 1 || current.name !== closed) return undefined;
      current.text = current.text.trim();
      open.pop();
    } else if (opened !== undefined) {
      const element: Open = { name: opened, attributes: attributesIn(attributes), children: [], text: "" };
      current.children.push(element);
      if (isEmpty === "") open.push(element);
    } else if (!text.startsWith("<")) current.text += plain(text);
  }
  return open.length === 1 ? top.children[0] : undefined;
}

export function childrenOf(element: Element, name: string): readonly Element[] {
  return element.children.filter((child) => child.name === name);
}

/** Text at a path of element names; undefined if there is none, or `N/A`. */
export function textAt(element: Element, ...path: readonly string[]): string | undefined {
  let at: Element | undefined = element;
  for (const name of path) at = at?.children.find((child) => child.name === name);
  return at === undefined || at.text === "" || /^\[?N\/A\]?$/.test(at.text) ? undefined : at.text;
}

function attributesIn(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/([\w.:-]+)\s*=\s*"([^"]*)"/g)].map(([, name, value]) => [name, plain(value ?? "")]),
  );
}

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };
const plain = (text: string) => text.replace(/&(lt|gt|amp|quot|apos);/g, (_, name: string) => entities[name] ?? "");
