import { Spotlight, spotlight } from "@mantine/spotlight";
import "@mantine/spotlight/styles.css";
import { IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { text } from "../text/navigation.ts";
import { useMenu } from "./menu.ts";

/** Opens the palette that is already shown. */
export const openPalette = (): void => spotlight.open();

/** Ctrl-K: every page by its name. Opens when it is shown first. */
export function Palette(): ReactNode {
  const menu = useMenu();
  const navigate = useNavigate();
  useEffect(() => spotlight.open(), []);
  return (
    <Spotlight
      shortcut="mod + K"
      nothingFound={text.nothingFound}
      highlightQuery
      searchProps={{ placeholder: text.search, leftSection: <IconSearch size={18} />, "aria-label": text.search }}
      actions={menu.map(({ path, title, section, icon: Icon }) => ({
        id: path,
        label: title,
        description: text.sections[section],
        leftSection: Icon && <Icon size={20} stroke={1.6} />,
        onClick: () => void navigate({ to: path as never }),
      }))}
    />
  );
}
