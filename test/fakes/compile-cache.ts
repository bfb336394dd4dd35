import { tmpdir } from "node:os";
import { join } from "node:path";

/** Folder in which Node keeps compiled code of the processes that tests start: a third of a control plane's start. */
export const compileCache = join(tmpdir(), "stoker-test-compiled");
