// Chooses the GGUF model of a repository when the deployment names none. Both sides use it, so that the control plane plans space
// for the files that the agent downloads.

export interface RepoFile {
  readonly path: string;
  /** Undefined if the list does not state it. */
  readonly sizeBytes: number | undefined;
}

const wanted = [/(^|[^a-z0-9])q4_k_m([^a-z0-9]|$)/i, /(^|[^a-z0-9])q8_0([^a-z0-9]|$)/i];
/** GGUF files that are no language model by themselves. */
const companion = /(^|\/|[._-])(mmproj|imatrix|lora|adapter)([._-]|$)/i;
const part = /^(?<stem>.*)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/i;

/** Returns true if the path is a part of a split model. */
export const isPart = (path: string): boolean => part.test(path);

export const isModelFile = ({ path }: RepoFile): boolean => /\.gguf$/i.test(path) && !companion.test(path);

/** The parts in order, or the one file: Q4_K_M, then Q8_0, then the smallest; a whole file before a split one. */
export function chooseGguf<F extends RepoFile>(files: readonly F[]): readonly F[] | undefined {
  const groups = [...Map.groupBy(files.filter(isModelFile), ({ path }) => stemOf(path)).values()];
  const models = groups.map(wholeOf).filter((model) => model !== undefined);
  models.sort(bySizeThenPath);
  const ofForm = (form: RegExp) => models.filter(([first]) => form.test(first?.path ?? ""));
  for (const candidates of [...wanted.map(ofForm), models]) {
    const found = candidates.find((model) => model.length === 1) ?? candidates[0];
    if (found) return found;
  }
  return undefined;
}

/** All parts of the model that the path is one of, in order; undefined when one is missing. */
export const wholeModel = <F extends RepoFile>(path: string, files: readonly F[]): readonly F[] | undefined =>
  wholeOf(files.filter((file) => stemOf(file.path) === stemOf(path)));

export const bytesOf = (files: readonly RepoFile[]): number =>
  files.reduce((sum, file) => sum + (file.sizeBytes ?? Number.POSITIVE_INFINITY), 0);

function stemOf(path: string): string {
  const { stem, count } = part.exec(path)?.groups ?? {};
  return stem === undefined ? path : `${stem}-of-${count}`;
}

/** In order; undefined when one is missing. */
function wholeOf<F extends RepoFile>(group: readonly F[]): readonly F[] | undefined {
  const sorted = [...group].sort((a, b) => (a.path < b.path ? -1 : 1));
  const count = part.exec(sorted[0]?.path ?? "")?.groups?.["count"];
  if (count === undefined) return sorted.length > 0 ? sorted.slice(0, 1) : undefined;
  const isWhole = sorted.every(({ path }, index) => Number(part.exec(path)?.groups?.["number"]) === index + 1);
  return isWhole && sorted.length === Number(count) ? sorted : undefined;
}

function bySizeThenPath(a: readonly RepoFile[], b: readonly RepoFile[]): number {
  if (bytesOf(a) !== bytesOf(b)) return bytesOf(a) - bytesOf(b);
  return (a[0]?.path ?? "") < (b[0]?.path ?? "") ? -1 : 1;
}
