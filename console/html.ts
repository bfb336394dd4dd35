// Templates instead of JSX, so that no build step is needed. Values become text or properties, never markup.
import htm from "htm";
import { type ComponentChildren, h } from "preact";

export const html = htm.bind(h);

export type View = ComponentChildren;
