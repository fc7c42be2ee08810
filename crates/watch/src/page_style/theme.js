// Light or dark: the system's choice until the button `#theme` was pressed. A page that draws on a canvas
// listens for the event `themechange` of the document.

const themeRoot = document.documentElement;
const systemTheme = window.matchMedia("(prefers-color-scheme: dark)");

function applyTheme(theme) {
  themeRoot.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) {
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = theme === "dark" ? "☀" : "☾";
    button.title = `Change to the ${other} colours`;
    button.setAttribute("aria-label", button.title);
  }
  document.dispatchEvent(new Event("themechange"));
}

let chosenTheme = null;
systemTheme.addEventListener("change", () => {
  if (!chosenTheme) applyTheme(systemTheme.matches ? "dark" : "light");
});
const themeButton = document.getElementById("theme");
if (themeButton) {
  themeButton.addEventListener("click", () => {
    chosenTheme = themeRoot.dataset.theme === "dark" ? "light" : "dark";
    applyTheme(chosenTheme);
  });
}
applyTheme(systemTheme.matches ? "dark" : "light");
