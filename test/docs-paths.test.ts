// Documentation that names a file which is gone misleads: every repository path in backticks or links must exist.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const documents = globSync(["*.md", "docs/**/*.md"], { cwd: root });
const places = /^(?:proto|control-plane|agent|runtime|cli|bench|test|scripts|deploy|docs|\.ci)\/[\w./*{},-]*$/;

test("every repository path that the documentation names exists", () => {
  const named = documents.flatMap((document) =>
    pathsIn(readFileSync(join(root, document), "utf8")).map((path) => ({ document, path })),
  );
  expect(documents).toContain("README.md");
  expect(named.length).toBeGreaterThan(5);
  const missing = named.filter(({ path }) => globSync(path.replace(/\/$/, ""), { cwd: root }).length === 0);
  expect(missing.map(({ document, path }) => `${document} names ${path}, which does not exist`)).toEqual([]);
});

/** Links that begin with a slash lead to the site, whose build checks them (scripts/docs/site.ts). */
test("every relative link of the documentation leads somewhere", () => {
  const links = documents.flatMap((document) =>
    [...readFileSync(join(root, document), "utf8").matchAll(/\]\((?!https?:|#|mailto:|\/)([^)#\s]+)/g)].map(
      ([, link = ""]) => ({
        document,
        link,
      }),
    ),
  );
  const broken = links.filter(({ document, link }) => !existsSync(join(root, dirname(document), link)));
  expect(broken.map(({ document, link }) => `${document} links to ${link}, which does not exist`)).toEqual([]);
});

test("every guide that uses the command line says where it is, and none writes it in another way", () => {
  const guides = globSync("docs/guides/*.md", { cwd: root }).map((path) => readFileSync(join(root, path), "utf8"));
  const using = guides.filter((text) => /\bstoker [a-z]+/.test(text.replaceAll(/`stoker` is `npx stoker`/g, "")));
  expect(using.length).toBeGreaterThan(5);
  for (const text of using) expect(text.match(/npx stoker/g)).toHaveLength(1);
});

/** Words in backticks that look like a path of this repository; `NNNN` and `<name>` stand for something and are left out. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/`(?:\.\/)?([^`\s]+)`/g)]
    .map(([, word = ""]) => word.replace(/[:,.]+$/, ""))
    .filter((word) => places.test(word) && !/NNNN|<|XXXX/.test(word));
}
