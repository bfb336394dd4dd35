// The generated pages: what each guarantee's tests said last, and the last figures of each bench.
import { slug } from "github-slugger";
import { type Line, plot } from "../../simulator/plot.ts";
import { isMet, text } from "./compare.ts";
import type { FigureHistory, FigureResult, Figures, TestResult, Tests } from "./recorded.ts";

const start = "<!-- results: npm run report writes the lines up to the next mark -->";
const end = "<!-- end of results -->";

export interface Guarantee {
  readonly title: string;
  /** Paths of its test files. */
  readonly tests: readonly string[];
}

/** The sections (`### Title`) of a page that name tests. */
export function guaranteesOf(page: string): readonly Guarantee[] {
  return page
    .split(/^### /m)
    .slice(1)
    .flatMap((following) => {
      const [section = ""] = following.split(/^## /m);
      const title = section.slice(0, section.indexOf("\n"));
      const tests = new Set([...section.matchAll(/`(test\/[\w./-]+\.test\.ts)`/g)].map(([, path]) => path as string));
      return tests.size === 0 ? [] : [{ title, tests: [...tests] }];
    });
}

/** The page with a new table of results. Throws without the marks that hold its place. */
export function withResults(page: string, table: string): string {
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from < 0 || to < from)
    throw new Error(`no place for results: the page lacks the line ${start}, or ${end} after it`);
  return `${page.slice(0, from + start.length)}\n\n${table}\n\n${page.slice(to)}`;
}

/** One row for each guarantee of each page: its tests, and when all of them last passed or which did not. */
export function guaranteeTable(pages: Readonly<Record<string, string>>, tests: Tests): string {
  const rows = Object.entries(pages).flatMap(([file, page]) =>
    guaranteesOf(page).map(({ title, tests: paths }) => {
      const link = `[${title}](${file}#${slug(title)})`;
      return `| ${link} | ${paths.length} | ${verdictOf(paths, tests)} |`;
    }),
  );
  return ["| Guarantee | Test files | Last result |", "| --- | --- | --- |", ...rows].join("\n");
}

function verdictOf(paths: readonly string[], tests: Tests): string {
  const known = paths.flatMap((path) => (tests[path] ? [[path, tests[path]] as const] : []));
  const failed = known.filter(([, { failed }]) => failed > 0).map(([path, { on }]) => `\`${path}\` **failed** ${on}`);
  const missing = paths.filter((path) => !tests[path]);
  const passed = known.filter(([, { failed }]) => failed === 0).map(([, result]) => result);
  const notRun =
    missing.length > 2 ? [`${missing.length} files not run`] : missing.map((path) => `\`${path}\` not run`);
  return [...failed, ...notRun, ...(passed.length > 0 ? [passedText(passed)] : [])].join("; ");
}

function passedText(results: readonly TestResult[]): string {
  const oldest = results.reduce((a, b) => (a.on <= b.on ? a : b));
  const count = results.reduce((sum, { passed }) => sum + passed, 0);
  const nightly = results.filter(({ isNightly }) => isNightly).length;
  const atNight = nightly === 0 ? "" : `, ${nightly} of the files at night`;
  return `${count} tests passed, the oldest on ${oldest.on} at \`${oldest.commit}\`${atNight}`;
}

const benchOf = (key: string): string => key.slice(0, key.indexOf(":"));
const nameOf = (key: string): string => key.slice(key.indexOf(":") + 2);

/** Markdown, and a plot for each bench with figures of at least two runs, by file name. */
export function performancePage(figures: Figures): {
  readonly page: string;
  readonly plots: Readonly<Record<string, string>>;
} {
  const benches = Map.groupBy(Object.entries(figures), ([key]) => benchOf(key));
  const plots: Record<string, string> = {};
  const sections = [...benches].map(([bench, entries]) => {
    const named = entries.map(([key, figure]) => [nameOf(key), figure] as const);
    const picture = historyPlot(bench, named);
    if (picture) plots[`${bench}.svg`] = picture;
    return [
      `## \`npm run bench -- ${bench}\``,
      ...(picture ? [`![Figures of each run beside their limits](performance/${bench}.svg)`] : []),
      [
        "| Figure | Last | Another machine | Limit | Runs | When |",
        "| --- | --- | --- | --- | --- | --- |",
        ...named.map(row),
      ].join("\n"),
    ].join("\n\n");
  });
  return { page: `${sections.join("\n\n")}\n`, plots };
}

function row([name, figure]: readonly [string, FigureHistory]): string {
  const last = figure.results.at(-1);
  if (!last) throw new Error(`the figure ${name} has no result`);
  const verdict = isMet(figure, last.value);
  const shown = text(last, figure.unit);
  const limit = figure.atMost ?? figure.atLeast;
  const other = figure.results.findLast(({ machineId }) => machineId !== last.machineId);
  const elsewhere = other ? `${text(other, figure.unit)}, ${whenOf(other)}` : "";
  return `| ${name.replaceAll("|", "\\|")} | ${verdict === false ? `**${shown}**` : shown} | ${elsewhere} | ${
    limit === undefined ? "" : `${figure.atMost === undefined ? "at least" : "at most"} ${limit}`
  } | ${figure.results.length} | ${whenOf(last)} |`;
}

const whenOf = ({ on, commit, machine, machineId }: FigureResult): string =>
  `${on}, \`${commit}\`, ${machineId}, ${machine}`;

/** Shares of the limit: figures of all units on one axis. Undefined where nothing was measured twice. */
function historyPlot(bench: string, figures: readonly (readonly [string, FigureHistory])[]): string | undefined {
  const lines = figures.flatMap(([name, figure]): Line[] => {
    const limit = figure.atMost ?? figure.atLeast;
    if (!limit || figure.results.length < 2) return [];
    return [{ name: shortName(name), points: figure.results.map(({ value }, at) => [at + 1, value / limit] as const) }];
  });
  if (lines.length === 0) return undefined;
  return plot({ title: `${bench}: figure / limit`, xTitle: "run", yTitle: "figure / limit", lines: lines.slice(0, 4) });
}

const shortName = (name: string): string => (name.length > 24 ? `${name.slice(0, 23)}…` : name);
