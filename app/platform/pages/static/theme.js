// Light, dark, or as the system says: the choice is a cookie, so that the server draws the next page in it at once.
const ORDER = ["system", "light", "dark"];
const NAMES = { system: "System", light: "Light", dark: "Dark" };
const YEAR_S = 365 * 86400;

function show(button, theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.querySelector("[data-theme-name]").textContent = NAMES[theme];
  button.setAttribute("aria-label", `Theme: ${NAMES[theme]}`);
}

export function begin(changed) {
  const button = document.querySelector("[data-theme-switch]");
  let theme = document.documentElement.dataset.theme ?? "system";
  show(button, theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    const age = theme === "system" ? 0 : YEAR_S;
    document.cookie = `tenure_theme=${theme}; path=/ui; max-age=${age}; samesite=strict`;
    show(button, theme);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
