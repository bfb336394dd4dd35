import type { ComponentType } from "react";
import type { Right } from "./visitor.ts";

/** Group of the menu. Only operators see `operator`. */
export type SectionName = "start" | "build" | "account" | "money" | "operator";

export interface PageEntry {
  readonly section: SectionName;
  /** Without `/console`. `$name` is one segment of the path. */
  readonly path: string;
  readonly title: string;
  /** In the menu if it has one. */
  readonly icon?: ComponentType<{ size?: number; stroke?: number }>;
  /** Right to see it; default: `read`. Hidden from members of an organization who lack it. */
  readonly reads?: Right;
  /** Right that its buttons need; default: `change`. */
  readonly changes?: Right;
  /** Hidden from an operator who views the account: the page only runs or changes something. */
  readonly isForOwner?: boolean;
  /** Loads the code of the page when it is opened first. */
  readonly load: () => Promise<ComponentType>;
}
