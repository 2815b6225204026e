package bench

import (
	"net"

	"github.com/gofiber/fiber/v2"
)

// Echo serves every POST on l with the same answer until the returned function is called: what the HTTP library alone
// can do.
func Echo(l net.Listener, answer []byte) (stop func() error) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/*", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(answer)
	})
	served := make(chan error, 1)
	go func() { served <- app.Listener(l) }()
	return func() error {
		if err := app.Shutdown(); err != nil {
			return err
		}
		return <-served
	}
}
