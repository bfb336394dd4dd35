import { createTheme, type MantineColorsTuple, PasswordInput } from "@mantine/core";
import { text } from "./text/common.ts";

const ember: MantineColorsTuple = [
  "#fff4ed",
  "#ffe6d5",
  "#fecbaa",
  "#fda774",
  "#fb7c3c",
  "#f85f16",
  "#c2410c",
  "#a8380b",
  "#8a2f0d",
  "#6f280e",
];

/** One design language: spacing, type scale, radius and the colour of actions. Status colours are in ui/status.tsx. */
export const theme = createTheme({
  primaryColor: "ember",
  primaryShade: 6,
  colors: { ember },
  autoContrast: true,
  // Above it, black text has more contrast than white.
  luminanceThreshold: 0.18,
  defaultRadius: "md",
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
  headings: {
    fontWeight: "650",
    sizes: {
      h1: { fontSize: "1.5rem", lineHeight: "1.3" },
      h2: { fontSize: "1.125rem", lineHeight: "1.4" },
      h3: { fontSize: "1rem", lineHeight: "1.4" },
    },
  },
  respectReducedMotion: true,
  components: {
    // Hints of different length leave the inputs of a row on one line.
    InputWrapper: { defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] } },
    PasswordInput: PasswordInput.extend({
      defaultProps: { visibilityToggleButtonProps: { "aria-label": text.showTyped } },
    }),
  },
});
