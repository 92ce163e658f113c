// A link to a view leads there after the login, too: the address a form is sent to hands its fragment on. A link with a token, as
// the program prints it, logs in by itself, and the token leaves the address bar and the history before anything else happens.

const form = document.querySelector("form");

function enter() {
  const token = location.hash.match(/^#token=([0-9A-Za-z._~-]+)$/)?.[1];
  if (!token) {
    form.action = `/login${location.hash}`;
    return;
  }
  history.replaceState(null, "", location.pathname);
  form.action = "/login";
  document.getElementById("token").value = token;
  form.requestSubmit();
}

addEventListener("hashchange", enter);
enter();
